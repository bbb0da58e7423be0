"""An exhibit is made of the numbers of the tasks that it shows."""

import pandas as pd
import pytest
from subtune.exhibits.making import make

from tests.helpers.examples import scored

DECLARATION = {
    "make": "subtune.exhibits.tables.significance:paired_tests",
    "printed": None,
    "options": {},
}


@pytest.mark.parametrize(("left_out", "columns"), [([], 2), (["squad"], 1)])
def test_tasks_that_are_left_out_have_no_rows(tmp_path, left_out, columns):
    rows = [(task, method, 1.0, None, 1e-3, 0, 0.5) for task in ("rte", "squad")
            for method in ("full", "bitfit")]  # fmt: skip
    scored(*rows).to_csv(tmp_path / "chosen.csv", index=False)
    data = {"chosen": ("chosen", str(tmp_path / "chosen.csv"))}
    table: pd.DataFrame = make(DECLARATION, data, {}, left_out)
    assert table["pairs"].tolist() == [columns]

"""An exhibit is made of the numbers of the tasks that it shows."""

import pytest

from subtune.papers.arguments import make
from tests.helpers.examples import scored


@pytest.mark.parametrize(("left_out", "columns"), [([], 2), (["squad"], 1)])
def test_tasks_that_are_left_out_have_no_rows(tmp_path, left_out, columns):
    rows = [(task, method, 1.0, None, 1e-3, 0, 0.5) for task in ("rte", "squad")
            for method in ("full", "bitfit")]  # fmt: skip
    path = tmp_path / "chosen.csv"
    scored(*rows).to_csv(path, index=False)
    declared = {"paper": "", "data": {"chosen": "chosen"}, "arguments": {}, "left_out": left_out}
    table = make("paired_tests", declared, {"chosen": str(path)})
    assert table["pairs"].tolist() == [columns]

"""The generalisation gap."""

import pandas as pd
import pytest

from subtune.analysis import gap
from tests.helpers.examples import scored


def test_the_gap_is_train_minus_dev_in_the_tables_metric():
    chosen = scored(("rte", "full", 1.0, None, 1e-5, 0, 0.7))
    trained = pd.DataFrame({"run": ["r"], "accuracy": [0.95], "f1": [0.1]})
    [row] = gap.train_and_dev(chosen, trained).to_dict("records")
    assert row["gap"] == pytest.approx(0.25)

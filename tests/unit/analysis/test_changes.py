"""Changes of parameters, compared with means worked out by hand."""

import math

import pandas as pd
import pytest

from subtune.analysis import parameters
from tests.helpers import examples


def test_a_components_change_is_the_mean_over_its_weights_and_biases():
    names = ["encoder.layer.3.output.dense.weight", "encoder.layer.3.output.dense.bias"]
    table = pd.DataFrame({"parameter": names, "mean_abs_change": [0.1, 0.5], "size": [30, 10]})
    [row] = parameters.changes_by_component({"rte": [table]}).to_numpy().tolist()
    assert row == ["rte", "output.dense", 3, pytest.approx(0.2)]


def test_changes_are_told_by_the_papers_names_of_parameters():
    of_layer = [
        f"encoder.layer.3.{n}" for n in ("attention.self.key.bias", "output.LayerNorm.weight")
    ]
    names = [*of_layer, "pooler.dense.bias"]
    table = pd.DataFrame({"parameter": names, "mean_abs_change": [0.0, 0.5, 0.7], "size": 8})
    found = parameters.changes_by_parameter([table, table]).set_index("parameter")["change"]
    assert found.to_dict() == {"b_k": 0.0, "g_LN2": 0.5}


def test_a_run_that_diverged_has_no_changes(tmp_path):
    chosen = examples.scored(("rte", "full", 1.0, None, 1e-5, 0, math.nan))
    assert parameters.changes_of_full_tuning(chosen, tmp_path).empty
    assert parameters.changes_of_methods(chosen, [("full", "rte")], tmp_path).empty

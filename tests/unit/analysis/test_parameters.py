"""Fisher information and changes of parameters, compared with numbers worked out by hand."""

import math

import pandas as pd
import pytest
from scipy.optimize import least_squares

from subtune import papers
from subtune.analysis import parameters
from subtune.methods import LAYER_PARAMETERS
from subtune.runs import records
from tests.helpers import examples
from tests.helpers.examples import sums
from tests.helpers.exhibits import made


def information(*sums_of_tasks, of):
    """One of the tables of several tasks' information."""
    return parameters.information_tables(pd.concat(sums_of_tasks))[of]


def test_components_are_ranked_by_mean_information_normalised_per_task():
    # Per component the mean is (2 weights + 2 biases) · information / 8 entries.
    other = sums("b", output_LayerNorm=0.0, attention_self_query=2000.0)
    shares = information(sums("a", output_LayerNorm=3.0), other, of="component_shares")
    total = parameters.component_ranking(shares)
    assert total["output.LayerNorm"] == pytest.approx(3 / 10)
    assert total["attention.self.query"] == pytest.approx(1 / 10 + 2000 / 2006)
    assert total.sum() == pytest.approx(2)
    table = made("layernorm", "table1", {"component_shares": shares}).set_index("component")
    assert table.loc["attention.self.query", "rank"] == 1
    assert table.loc["output.LayerNorm", "paper's rank"] == 1


def test_a_parameters_information_is_the_mean_over_its_entries():
    table = sums("a")
    table.loc[table["parameter"] == "encoder.layer.0.attention.self.value.bias", "information"] = 5
    found = information(table, sums("b"), of="parameter_information")
    values = found.set_index(["task", "parameter"])["information"]
    # Both layers have two entries: (5 + 1) / 4.
    assert (values["a", "b_v"], values["b", "b_v"]) == (1.5, 0.5)
    assert set(found["parameter"]) == set(LAYER_PARAMETERS) and len(values) == 20


def test_layernorm_shares_sum_to_1_and_global_ones_to_the_number_of_tasks():
    shares = information(sums("a"), sums("b", output_LayerNorm=5.0), of="layernorm_information")
    assert shares.groupby("task")["share"].sum().to_dict() == pytest.approx({"a": 1, "b": 1})
    total = parameters.global_layernorm_information(shares)
    assert total.groupby("part")["share"].sum().to_dict() == pytest.approx({"weight": 2, "bias": 2})
    assert len(total) == 4


FIGURE_3 = papers.find_paper("layernorm").read_printed("figure3").rename(columns={"value": "share"})
# The paper prints two digits, so each number may be off by half a unit of the last digit.
FIGURE_4 = (
    papers.find_paper("layernorm").read_printed("figure4").set_index(["part", "layer"])["value"]
)


def off_figure_4(shares):
    """Our global information from shares, minus the printed one: a column per part."""
    ours = parameters.global_layernorm_information(shares).set_index(["part", "layer"])["share"]
    return (ours - FIGURE_4).unstack("part")


def test_figure_4_is_figure_3_with_weights_and_biases_normalised_apart():
    off = off_figure_4(FIGURE_3)
    assert off["bias"].notna().all() and off["bias"].abs().max().round(3) <= 0.005
    # Sums of weights lack unreadable values, so the weights' shares are too large.
    assert off["weight"].isna().sum() == 5
    assert off["weight"].dropna().between(0.005, 0.018).all()


def test_values_in_the_unreadable_cells_explain_the_weights_of_figure_4():
    unreadable = FIGURE_3["share"].isna()

    def weights_off(values):
        complete = FIGURE_3.assign(share=FIGURE_3["share"].where(~unreadable, 0.0))
        complete.loc[unreadable, "share"] = values
        return off_figure_4(complete)["weight"].to_numpy()

    solved = least_squares(weights_off, [0.7] * unreadable.sum(), bounds=(0, 1))
    assert abs(weights_off(solved.x)).max() < 0.005


def changed(monkeypatch, *rows):
    """Runs of two methods whose records all have these changes."""
    columns = ["parameter", "mean_abs_change", "size"]
    table = pd.DataFrame(
        [(f"encoder.layer.3.{name}", *row) for name, *row in rows], columns=columns
    )
    monkeypatch.setattr(records, "read_parameter_changes", lambda store, run: table)
    return examples.scored(*(("rte", name, 1.0, None, 1e-5, 0, 0.5) for name in ("full", "bitfit")))


def test_a_components_change_is_the_mean_over_its_weights_and_biases(monkeypatch, tmp_path):
    names = ("output.dense.weight", 0.1, 30), ("output.dense.bias", 0.5, 10)
    table = parameters.component_changes(changed(monkeypatch, *names), tmp_path)
    assert table.to_numpy().tolist() == [["rte", "output.dense", 3, pytest.approx(0.2)]]


def test_changes_are_told_by_the_papers_names_of_parameters(monkeypatch, tmp_path):
    names = ("attention.self.key.bias", 0.0, 8), ("output.LayerNorm.weight", 0.5, 8)
    chosen = changed(monkeypatch, *names, ("attention.self.key.weight", 0.7, 64))
    found = parameters.mean_abs_changes(chosen, [("bitfit", "rte")], tmp_path)
    assert set(found["method"]) == {"bitfit"}
    assert found.set_index("parameter")["change"].to_dict() == {"b_k": 0.0, "g_LN2": 0.5}


def test_a_run_that_diverged_has_no_changes(tmp_path):
    chosen = examples.scored(("rte", "full", 1.0, None, 1e-5, 0, math.nan))
    assert parameters.component_changes(chosen, tmp_path).empty
    assert parameters.mean_abs_changes(chosen, [("full", "rte")], tmp_path).empty

"""Where Fisher information is, against sums worked out by hand."""

import pytest

from subtune.analysis import information
from tests.helpers.examples import sums
from tests.helpers.exhibits import made


def test_components_are_ranked_by_mean_information_normalised_per_task():
    # Per component the mean is (2 weights + 2 biases) · information / 8 entries.
    one = sums(output_LayerNorm=3.0)
    other = sums(output_LayerNorm=0.0, attention_self_query=2000.0)
    shares = information.component_shares({"a": one, "b": other})
    total = information.component_ranking(shares)
    assert total["output.LayerNorm"] == pytest.approx(3 / 10)
    assert total["attention.self.query"] == pytest.approx(1 / 10 + 2000 / 2006)
    assert total.sum() == pytest.approx(2)
    table = made("layernorm", "table1", shares=shares).set_index("component")
    assert table.loc["attention.self.query", "rank"] == 1
    assert table.loc["output.LayerNorm", "paper's rank"] == 1


def test_a_tasks_layernorm_shares_sum_to_1_and_the_global_ones_to_the_number_of_tasks():
    shares = information.layernorm_by_layer({"a": sums(), "b": sums(output_LayerNorm=5.0)})
    assert shares.groupby("task")["share"].sum().to_dict() == pytest.approx({"a": 1, "b": 1})
    total = information.global_by_layer(shares)
    assert total["share"].sum() == pytest.approx(2)
    assert len(total) == 4

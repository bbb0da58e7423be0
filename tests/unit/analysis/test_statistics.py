"""The statistics of claims."""

import math

import numpy as np
import pandas as pd
import pytest

from subtune.analysis.statistics import (
    best_minus,
    changes_to_largest_other,
    holm,
    kruskal_wallis,
    minus,
    minus_at_train_size,
    minus_by_rows,
    minus_printed,
    paired_tests,
)
from subtune.papers.bitfit import (
    agreement_of_models,
    change_beside_others,
    epochs_left,
    log_rate_ratio_to_printed,
    measure_minus,
    minus_by_task_size,
    spread_minus,
)
from subtune.papers.bitfit_plus import (
    best_on_average_minus,
    correlate_changes_with_scores,
    distance_to_printed,
)
from subtune.papers.layernorm import bias_minus_weight, change_to_largest_other, rank_minus
from subtune.papers.spafit import log_rate_ratio
from tests.helpers.examples import scored


def scores(rows, **columns):
    """Scores of whole methods on tasks; the default seed is 0."""
    whole = [(task, method, 1.0, None, 1e-3, *(seed or [0]), v) for task, method, v, *seed in rows]
    return scored(*whole).assign(**columns)


def changes(method, **changes):
    """Changes of parameters in one layer on one task."""
    rows = [("minilm", method, "rte", name, 0, change) for name, change in changes.items()]
    columns = ["model", "method", "task", "parameter", "layer", "change"]
    return pd.DataFrame(rows, columns=columns)


def test_the_best_of_a_family_is_compared_on_the_digits_that_are_printed():
    table = scores(
        [("rte", "a-1", 0.604), ("rte", "a-2", 0.5), ("rte", "b-1", 0.598), ("rte", "b-2", 0.3)]
    )
    assert best_minus(table, "a.*", "b.*", 2).tolist() == [0.0]
    assert best_minus(table, "a-1", "[ab].*", 1).tolist() == [0.0]
    assert best_minus(table, "a.*", "b.*", 1, "min").tolist() == pytest.approx([-0.1])


def test_families_are_patterns_of_whole_names_and_the_best_method_is_itself():
    table = scores([("rte", "a", 0.1), ("rte", "a+b", 0.5), ("rte", "c[1]", 0.3)])
    assert minus(table, "a", r"c\[1\]").tolist() == pytest.approx([-0.2])
    assert minus(table, r"a\+b|c.*", "a").tolist() == pytest.approx([0.3])
    assert best_on_average_minus(table, "a.*", "c.*").tolist() == pytest.approx([0.2])


def test_scores_are_compared_with_printed_ones_of_the_same_model_alone():
    printed = pd.DataFrame(
        [("table1", "validation", "minilm", "rte", "quoted", 0.6)],
        columns=["exhibit", "split", "model", "column", "method", "value"],
    )
    ours = scores([("rte", "a", 0.7), ("cola", "a", 0.1)])
    of = ({"a": "quoted"}, "table1", "validation")
    assert minus_printed(ours, printed, *of).tolist() == pytest.approx([0.1])
    below = ours.assign(value=0.5)
    assert distance_to_printed(below, printed, *of).tolist() == pytest.approx([0.1])
    other = ours.assign(model="bert-base-cased")
    assert minus_printed(other, printed, *of).empty


def test_an_advantage_is_correlated_with_the_number_of_training_rows():
    tasks = {"a": 100, "b": 200, "c": 300, "unknown": None}
    rows = [(t, "x", 0.5 + n / 10) for n, t in enumerate(tasks)] + [(t, "y", 0.5) for t in tasks]
    sizes = pd.DataFrame({"task": ["a", "b", "c"], "rows": [100, 200, 300]})
    cells = minus_by_task_size(scores(rows), sizes, "x", "y")
    assert cells.index.names == ["model", "seed"] and cells.tolist() == pytest.approx([1.0])
    assert minus_by_task_size(scores(rows[:2]), sizes, "x", "y").empty


def test_norms_without_biases_have_no_difference_between_biases_and_weights():
    layers = pd.DataFrame({"task": "rte", "layer": [0, 1], "part": "weight", "share": 0.5})
    assert bias_minus_weight(layers).empty


def test_ranks_are_compared_one_by_one():
    shares = pd.DataFrame(
        [(task, c, share) for task in "ab"
         for c, share in (("output.LayerNorm", 0.5), ("output.dense", 0.3),
                          ("attention.output.LayerNorm", 0.2))],
        columns=["task", "component", "share"],
    )  # fmt: skip
    printed = pd.DataFrame({"rank": [1, 2], "component": ["output.LayerNorm", "output.dense"]})
    ranks = {"output.LayerNorm": 1, "attention.output.LayerNorm": 2, "pooler": 3}
    assert rank_minus(shares, ranks).to_dict() == {"output.LayerNorm": 0,
                                                   "attention.output.LayerNorm": 1}  # fmt: skip
    assert rank_minus(printed, {"output.dense": 3}).tolist() == [-1]


def test_a_component_changes_more_than_the_largest_other():
    table = pd.DataFrame({"task": "a", "component": ["x", "y", "z"], "change": [0.4, 0.2, 0.1]})
    assert np.exp(change_to_largest_other(table, "x")).tolist() == pytest.approx([2])
    assert change_to_largest_other(table, "w").empty


def test_a_bias_that_does_not_change_has_no_share_of_the_others_change():
    table = changes("bitfit", b_k=0.0, b_q=0.4, b_v=0.2)
    assert change_beside_others(table, "bitfit", "b_k", "b_.*").tolist() == [0]
    assert change_beside_others(table, "bitfit", "b_q", "b_.*").tolist() == pytest.approx([4])
    largest = changes_to_largest_other(table, "bitfit", ("b_q",), "b_.*")
    assert np.exp(largest).tolist() == pytest.approx([2])
    assert changes_to_largest_other(table, "bitfit", ("b_q",), "g_.*").empty


def test_change_and_score_are_correlated_over_methods_seed_by_seed():
    rows = [
        ("rte", name, value, seed)
        for seed, values in enumerate([(0.3, 0.2, 0.1), (0.1, 0.2, 0.3)])
        for name, value in zip("xyz", values, strict=True)
    ]
    parts = {name: (name,) for name in "xyz"}
    cells = correlate_changes_with_scores(
        changes("all", x=0.1, y=0.2, z=0.3), scores(rows), "all", parts
    )
    assert cells.tolist() == pytest.approx([1, -1])
    assert correlate_changes_with_scores(changes("bitfit", x=0.1), scores(rows), "all", parts).empty


def test_rates_are_compared_with_one_and_with_the_printed_ones():
    runs = scores([("rte", "a", 0.7), ("cola", "a", 0.7)])
    assert np.exp(log_rate_ratio(runs, "a", 5e-4)).tolist() == pytest.approx([2, 2])
    printed = runs.assign(learning_rate=[1e-3, 2e-3])
    assert sorted(np.exp(log_rate_ratio_to_printed(runs, printed, "a"))) == pytest.approx([0.5, 1])


def test_one_method_is_set_beside_another_or_a_limit():
    rows = [("rte", "a", 0.1, 0), ("rte", "a", 0.5, 1), ("rte", "b", 0.3, 0), ("rte", "b", 0.3, 1)]
    assert spread_minus(scores(rows), "a", "b").tolist() == pytest.approx([np.sqrt(0.08)])
    gaps = scores([("rte", "a", 0.7), ("rte", "b", 0.7)], gap=[0.03, 0.01])
    assert measure_minus(gaps, "gap", "a", "b").tolist() == pytest.approx([0.02])
    assert measure_minus(gaps, "gap", 0.02, "a").tolist() == pytest.approx([-0.01])


def test_a_method_that_still_improves_has_no_epoch_of_convergence():
    """A training of five epochs does not show that seven are enough if its last epoch is best."""
    curves = ["converged", "still rising", None]
    runs = scores(
        [(task, "a", 0.7) for task in ("rte", "cola", "mrpc")], best_epoch=5, curve=curves
    )
    assert epochs_left(runs, "a", 7).to_dict() == {("minilm", "rte", 0): 2}


def test_models_agree_where_a_method_gains_on_the_same_tasks():
    parts = []
    for model, gains in (("m", (0.1, 0.2, 0.3)), ("n", (0.2, 0.3, 0.4)), ("o", (0.3, 0.2, 0.1))):
        rows = [(t, "a", 0.5 + g) for t, g in zip("xyz", gains, strict=True)]
        parts.append(scores([*rows, *((t, "b", 0.5) for t in "xyz")]).assign(model=model))
    cells = agreement_of_models(pd.concat(parts), "a", "b")
    assert cells.to_dict() == pytest.approx({"m, n": 1, "m, o": -1, "n, o": -1})


def sizes(values, metric="exact_match", **columns):
    """Scores of methods on SQuAD: by method and number of training rows."""
    parts = [
        scored(("squad", method, 1.0, None, 1e-3, 0, value)).assign(train_rows=rows)
        for method, by_rows in values.items()
        for rows, value in by_rows.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(metric=metric, **columns)


# The curves cross between 100 and 1,000 rows.
CROSSING = {"full": {10: 0.1, 100: 0.4, 1000: 0.8}, "bitfit": {10: 0.3, 100: 0.5, 1000: 0.7}}


def test_scores_in_another_metric_are_not_compared():
    table = pd.concat([sizes(CROSSING), sizes({"full": {10: 0.9}, "bitfit": {10: 0.1}}, "f1")])
    fewest = minus_at_train_size(table, "exact_match", "min", "bitfit", "full")
    assert fewest.tolist() == pytest.approx([0.2])
    assert minus_at_train_size(table, "accuracy", "min", "bitfit", "full").empty
    deciding = table.assign(decides=table["metric"] == "exact_match")
    assert minus_at_train_size(deciding, None, "min", "bitfit", "full").equals(fewest)


@pytest.mark.parametrize(
    ("curves", "ends"),
    [
        ({"full": {10: 0.1}, "bitfit": {10: 0.3}}, ["min", "max"]),
        (CROSSING | {"bitfit": {10: math.nan, 100: 0.5, 1000: 0.7}}, ["min"]),
    ],
    ids=["one number of rows", "diverged on the fewest"],
)
def test_without_scores_on_the_fewest_and_on_more_rows_nothing_is_compared(curves, ends):
    table = sizes(curves)
    assert all(
        minus_at_train_size(table, "exact_match", end, "bitfit", "full").empty for end in ends
    )
    assert minus_by_rows(table, "exact_match", "bitfit", "full").empty


def test_methods_are_paired_by_task_and_equal_groups_do_not_differ():
    tasks = enumerate(("rte", "cola", "mrpc", "sst2", "qnli", "qqp"))
    rows = [(t, m, n + more) for n, t in tasks for m, more in (("full", 0.1), ("bitfit", 0.0))]
    [row] = paired_tests(scores(rows)).to_dict("records")
    assert row["pairs"] == 6
    assert row["mean_difference"] == pytest.approx(0.1)
    # All six differences have the same sign, as in two of the 2^6 cases.
    assert row["p_value"] == round(2 / 64, 4)
    assert kruskal_wallis([0.5, 0.5], [0.5, 0.5]) == 1.0


def test_scores_of_scorers_in_another_unit_are_not_tested_together():
    rows = [(t, m, 0.5) for t in ("rte", "cola", "mrpc") for m in ("full", "bitfit")]
    table = scores(rows)
    of_cost = table["task"] == "mrpc"
    mixed = table.assign(metric=table["metric"].mask(of_cost, "neg_max_error"))
    assert [row["pairs"] for row in paired_tests(mixed).to_dict("records")] == [2]
    same = table.assign(metric="balanced_accuracy")
    assert [row["pairs"] for row in paired_tests(same).to_dict("records")] == [3]


def test_holm_multiplies_p_values_and_keeps_their_order():
    p_values = pd.Series([0.04, 0.01, math.nan, 0.03, 0.5])
    # 4 × 0.01, 3 × 0.03, 2 × 0.04 (not below the one before), 1 × 0.5.
    expected = [0.09, 0.04, math.nan, 0.09, 0.5]
    assert holm(p_values).tolist() == pytest.approx(expected, nan_ok=True)
    assert holm(pd.Series([0.6, 0.7])).tolist() == [1.0, 1.0]

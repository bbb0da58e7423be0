"""Which runs tables show, against choices worked out by hand."""

from subtune.analysis import scores
from tests.helpers.examples import scored


def test_the_best_learning_rate_has_the_highest_mean_over_seeds():
    table = scored(
        ("rte", "full", 1.0, None, 1e-5, 0, 0.9),
        ("rte", "full", 1.0, None, 1e-5, 1, 0.5),
        ("rte", "full", 1.0, None, 3e-5, 0, 0.8),
        ("rte", "full", 1.0, None, 3e-5, 1, 0.8),
        ("cola", "full", 1.0, None, 1e-5, 0, 0.3),
        ("cola", "full", 1.0, None, 3e-5, 0, 0.2),
    )
    chosen = scores.choose(table).groupby("task")["learning_rate"].unique()
    assert chosen["rte"].tolist() == [3e-5]
    assert chosen["cola"].tolist() == [1e-5]


def test_methods_keep_their_order_whichever_learning_rate_is_chosen():
    table = scored(
        ("rte", "full", 1.0, None, 1e-5, 0, 0.7),
        ("rte", "bitfit", 1.0, None, 1e-5, 0, 0.9),
        ("rte", "full", 1.0, None, 3e-5, 0, 0.8),
    )
    assert scores.choose(table)["method"].tolist() == ["full", "bitfit"]


def test_of_equal_learning_rates_the_smaller_is_chosen():
    table = scored(
        ("rte", "full", 1.0, None, 3e-5, 0, 0.9), ("rte", "full", 1.0, None, 1e-5, 0, 0.9)
    )
    assert scores.choose(table)["learning_rate"].tolist() == [1e-5]


def test_both_columns_of_mnli_come_from_the_run_that_is_best_on_matched():
    table = scored(
        ("mnli", "full", 1.0, None, 1e-5, 0, 0.9),
        ("mnli", "full", 1.0, None, 1e-5, 0, 0.1),
        ("mnli", "full", 1.0, None, 3e-5, 0, 0.8),
        ("mnli", "full", 1.0, None, 3e-5, 0, 0.8),
    ).assign(column=["mnli_matched", "mnli_mismatched"] * 2, decides=[True, False] * 2)
    assert scores.choose(table)["value"].tolist() == [0.9, 0.1]


def test_every_curve_ends_at_the_whole_selection():
    table = scored(
        ("rte", "layernorm", 1.0, None, 1e-3, 0, 0.7),
        ("rte", "layernorm", 0.2, "cv", 1e-3, 0, 0.6),
        ("rte", "full", 1.0, None, 1e-3, 0, 0.9),
    )
    curves = scores.with_whole_selection(table)
    ends = curves[(curves["scope"] == "cv") & (curves["fraction"] == 1)]
    assert ends["value"].tolist() == [0.7]

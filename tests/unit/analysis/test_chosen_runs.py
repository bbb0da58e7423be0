"""The choice of runs for tables, and verdicts on learning curves, worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from subtune import papers
from subtune.analysis import chosen_runs
from subtune.analysis.chosen_runs import CONVERGED, FELL, STILL_RISING, curve_verdict
from subtune.analysis.run_scores import score_in_all_metrics
from subtune.analysis.statistics import minus, paired_tests
from subtune.analysis.tables import column_declarations, read_table
from subtune.papers.layernorm import mask_minus
from subtune.tasks import TASKS
from subtune.tasks.task import list_score_columns
from tests.helpers.examples import scored
from tests.helpers.scored_runs import collected, write_run


def at_rates(rates, method="full", task="rte", **columns):
    """Scores of one method: by learning rate, a score per seed."""
    rows = [
        (task, method, 1.0, None, rate, seed, value)
        for rate, values in rates.items()
        for seed, value in enumerate(values)
    ]
    return scored(*rows).assign(**columns)


@pytest.mark.parametrize(
    ("rates", "best", "values"),
    [
        ({1e-5: [0.9, 0.5], 3e-5: [0.8, 0.8]}, 3e-5, [0.8, 0.8]),
        ({3e-5: [0.9], 1e-5: [0.9]}, 1e-5, [0.9]),
        ({1e-5: [0.6, 0.6], 3e-5: [0.9, math.nan]}, 1e-5, [0.6, 0.6]),
        ({3e-5: [0.9, math.nan], 1e-5: [math.nan, 0.6]}, 1e-5, [math.nan, math.nan]),
    ],
    ids=["highest mean", "smaller of equals", "diverged", "all diverged"],
)
def test_the_best_rate_has_the_highest_mean_and_no_diverged_seed(rates, best, values):
    # Another method and another task, with other best learning rates.
    others = [at_rates({1e-3: [0.7]}, "bitfit"), at_rates({1e-5: [0.3], 3e-5: [0.2]}, task="cola")]
    table = chosen_runs.choose_rates(pd.concat([at_rates(rates), *others], ignore_index=True))
    chosen = table[(table["method"] == "full") & (table["task"] == "rte")]
    assert set(chosen["learning_rate"]) == {best}
    assert chosen["value"].tolist() == pytest.approx(values, nan_ok=True)
    assert table["method"].drop_duplicates().tolist() == ["full", "bitfit"]
    assert table.iloc[-1][["task", "learning_rate"]].tolist() == ["cola", 1e-5]


@pytest.mark.parametrize(
    ("rates", "at_edge"),
    [
        ({1e-5: [0.8], 2e-5: [0.9], 3e-5: [0.8]}, False),
        ({1e-5: [0.9], 2e-5: [0.8], 3e-5: [0.7]}, True),
        ({1e-5: [0.7], 2e-5: [0.8], 3e-5: [0.9]}, True),
        ({1e-5: [0.8], 2e-5: [0.9], 3e-5: [math.nan]}, False),
        ({1e-5: [math.nan], 2e-5: [math.nan]}, False),
        ({1e-5: [0.9]}, False),
        ({math.nan: [0.9]}, False),
    ],
    ids=["middle", "smallest", "largest", "below diverged", "all diverged", "one rate", "no rate"],
)
def test_the_smallest_or_largest_of_several_learning_rates_is_at_the_edge(rates, at_edge):
    # The rates of other settings do not count.
    others = [at_rates({1e-6: [0.7], 1e-1: [0.8]}, "bitfit"), at_rates({1e-6: [0.3]}, task="cola")]
    table = chosen_runs.choose_rates(pd.concat([at_rates(rates), *others], ignore_index=True))
    [chosen] = table[(table["method"] == "full") & (table["task"] == "rte")].to_dict("records")
    assert chosen["at_edge"] is at_edge


def test_both_columns_of_mnli_come_from_the_run_that_is_best_on_matched():
    table = pd.concat(
        at_rates({1e-5: [first], 3e-5: [second]}, task="mnli", column=column, decides=decides)
        for column, decides, first, second in
        (("mnli_matched", True, 0.9, 0.8), ("mnli_mismatched", False, 0.1, 0.8))
    )  # fmt: skip
    assert chosen_runs.choose_rates(table)["value"].tolist() == [0.9, 0.1]


def test_every_curve_ends_at_the_whole_selection():
    whole = [at_rates({1e-3: [0.7]}, "layernorm"), at_rates({1e-3: [0.9]})]
    mask = at_rates({1e-3: [0.6]}, "layernorm", fraction=0.2, scope="cv")
    curves = chosen_runs.add_whole_selection(pd.concat([*whole, mask]))
    ends = curves[(curves["scope"] == "cv") & (curves["fraction"] == 1)]
    assert ends["value"].tolist() == [0.7]


def test_a_setting_that_diverged_is_in_no_mean_and_in_no_test():
    diverged = at_rates({1e-5: [math.nan, math.nan]})
    chosen = pd.concat([diverged, at_rates({1e-3: [0.7]}, "bitfit")])
    means = chosen_runs.pivot_methods(chosen).loc[("minilm", "rte")]
    assert means["bitfit"] == 0.7 and math.isnan(means["full"])
    assert minus(chosen, "full", "bitfit").empty
    assert minus(chosen, "full|bitfit", "bitfit").empty
    assert paired_tests(chosen)["pairs"].tolist() == [0]
    values = {"cv": math.nan, "global": 0.6, "individual": 0.6}
    masks = pd.concat(
        at_rates({1e-3: [value]}, "layernorm", fraction=0.1, scope=scope)
        for scope, value in values.items()
    )
    assert mask_minus(masks, "global", "cv").empty
    assert mask_minus(masks, "global", "individual").tolist() == [0.0]


def test_scores_are_read_as_they_were_written(tmp_path):
    epochs = pd.array([pd.NA, 2], "Int64")
    table = at_rates({1e-5: [math.nan, 0.5]}, task="NA", best_epoch=epochs)
    table.to_csv(tmp_path / "scores.csv", index=False)
    read = read_table(tmp_path / "scores.csv", "scores")
    table.to_parquet(tmp_path / "scores.parquet", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "scores.parquet"), table)
    assert read[["value", "best_epoch"]].isna().to_numpy().tolist() == [[True] * 2, [False] * 2]
    assert read["task"].tolist() == ["NA", "NA"]


def of_paper(store, paper, task, curves, **found):
    """Scores by a paper's metric of runs with seeds 0, 1, …, which have rates of 1e-3, 2e-3, …"""
    runs = {
        write_run(store, task, curve=curve, seed=seed): {"learning_rate": (seed + 1) / 1000}
        for seed, curve in enumerate(curves)
    }
    columns = list_score_columns([TASKS[task]], papers.find_paper(paper).metrics)
    return collected(store, task, runs, apart=False, columns=columns, **found)


@pytest.mark.parametrize(
    ("paper", "task", "best_epoch", "value", "rate"),
    [
        ("spafit", "stsb", 2, 0.8, 2e-3),
        ("bitfit", "stsb", 1, 0.9, 1e-3),
        ("spafit", "qqp", 2, 0.8, 2e-3),
    ],
)
def test_epoch_and_rate_are_best_by_the_metric_that_the_paper_shows(
    tmp_path, paper, task, best_epoch, value, rate
):
    # Spearman, then Pearson; F1, then accuracy.
    curves = [(0.9, 0.7), (0.6, 0.8), (0.5, 0.8)], [(0.1, 0.85), (0.2, 0.75)]
    table = of_paper(tmp_path, paper, task, curves)
    assert table.iloc[0][["best_epoch", "value"]].tolist() == [best_epoch, value]
    assert chosen_runs.choose_rates(table)["learning_rate"].tolist() == [rate]


def test_other_folds_choose_an_epoch_by_their_mean_score(tmp_path):
    """The third fold's others have their highest score at epoch 1, their highest mean at 2."""
    curves = [[(0.9,), (0.7,)], [(0.2,), (0.6,)], [(0.5,), (0.4,)]]
    runs = {
        write_run(tmp_path, "rte", curve=curve, seed=fold): {"fold": fold, "partition": 0}
        for fold, curve in enumerate(curves)
    }
    table = collected(tmp_path, "rte", runs)
    assert table["judged_at"].tolist() == [[2], [1], [2]]
    assert table["value"].tolist() == [0.7, 0.2, 0.4]


def test_scores_have_the_declared_columns(tmp_path):
    chosen = chosen_runs.choose_rates(of_paper(tmp_path, "bitfit", "rte", [[(0.9,)]]))
    judged = chosen_runs.add_curve_verdicts(chosen, tmp_path, 0.02)
    judged = judged.assign(margin=0.02, left_out="", share_of_rows=1.0)
    assert sorted(judged) == sorted(column_declarations("scores")["column"])


def test_what_trains_is_counted_with_the_classifier_and_without(tmp_path):
    table = of_paper(tmp_path, "bitfit", "rte", [[(0.9,)]])
    assert (table["trainable"].item(), table["classifier"].item()) == (10, 6)
    assert chosen_runs.count_encoder_parameters(table).tolist() == [4]
    assert (table["delta_bytes"].item(), table["seconds"].item()) == (80, 1.0)


def test_a_learning_curve_is_in_the_metric_which_the_paper_shows(tmp_path):
    table = of_paper(tmp_path, "spafit", "stsb", [[(0.9, 0.7), (0.6, 0.8)]])
    curve = chosen_runs.read_learning_curves(table, tmp_path)
    assert curve["metric"].unique().tolist() == ["pearsonr"]
    assert curve["score"].tolist() == [0.7, 0.8]


def searched(store, *tried):
    """Return the score of a run whose search tried these rates, and found the first."""
    scored = [{"learning_rate": rate, "score": 0.9 - 0.01 * n} for n, rate in enumerate(tried)]
    diverged = {"learning_rate": tried[-1], "score": None}
    found = {"search": "s", "tried": [*scored[:-1], diverged]}
    run = {write_run(store, "rte", curve=[(0.9,)]): {"learning_rate": tried[0]}}
    [row] = chosen_runs.choose_rates(collected(store, "rte", run, **found)).itertuples()
    return row


@pytest.mark.parametrize(("tried", "at_edge"), [((1e-2, 1e-3), True), ((1e-2, 1e-3, 1e-1), False)])
def test_a_search_knows_its_edge_by_the_rates_that_it_tried(tmp_path, tried, at_edge):
    run = searched(tmp_path, *tried)
    assert (run.learning_rate, run.searched, run.at_edge) == (1e-2, True, at_edge)


def test_the_plateau_of_a_search_has_the_rates_that_score_almost_as_high(tmp_path):
    assert searched(tmp_path, 1e-2, 3e-3, 1e-3, 3e-2).plateau == [0.01, 0.003]


def test_every_seed_of_a_search_is_chosen_whatever_it_found():
    runs = [("rte", "a", 1.0, None, rate, seed, 0.9) for seed, rate in enumerate((1e-3, 1e-2))]
    table = scored(*runs)
    assert len(chosen_runs.choose_rates(table.assign(searched=True))) == 2
    assert len(chosen_runs.choose_rates(table)) == 1


def test_a_curve_has_one_verdict_by_the_metric_that_the_paper_shows(tmp_path):
    """The task's own metric, Spearman, falls in every seed."""
    pearson = [0.1, 0.4, 0.7], [0.2, 0.5, 0.8], [0.1, 0.5, 0.8], [0.1] * 3, [0.1] * 3
    runs = {}
    for seed, curve in enumerate(pearson):
        both = [*zip((0.9, 0.6, 0.3), curve, strict=True)]
        run = write_run(tmp_path, "stsb", curve=both, seed=seed, diverged=seed == 4)
        runs[run] = {"method": "full" if seed < 3 else "bitfit"}
    columns = list_score_columns([TASKS["stsb"]], papers.find_paper("spafit").metrics)
    table = chosen_runs.choose_rates(collected(tmp_path, "stsb", runs, False, columns))
    judged = chosen_runs.add_curve_verdicts(table, tmp_path, 0.02)
    assert judged["curve"].fillna("").tolist() == ["still rising"] * 3 + [""] * 2


def test_each_number_of_training_rows_has_its_best_learning_rate():
    small = at_rates({1e-5: [0.6], 3e-5: [0.5]}, train_rows=10)
    large = at_rates({1e-5: [0.7], 3e-5: [0.9]}, train_rows=100)
    other = at_rates({1e-5: [0.5]}, task="cola", train_rows=50)
    chosen = chosen_runs.choose_rates(pd.concat([small, large, other]))
    assert dict(zip(chosen["train_rows"], chosen["value"], strict=True)) == {
        10: 0.6, 100: 0.9, 50: 0.5
    }  # fmt: skip
    most = chosen_runs.select_largest_training_set(chosen)
    assert dict(zip(most["task"], most["value"], strict=True)) == {"rte": 0.9, "cola": 0.5}


def test_every_metric_is_that_of_the_epoch_that_was_chosen(tmp_path):
    """The second epoch is best by Spearman, the first by Pearson."""
    columns = list_score_columns([TASKS["stsb"]], {})
    scores = of_paper(tmp_path, "bitfit", "stsb", [[(0.6, 0.8), (0.9, 0.7)]])
    chosen = chosen_runs.choose_rates(scores)
    table = score_in_all_metrics(chosen, tmp_path, columns).set_index("metric")
    assert table["value"].to_dict() == {"spearmanr": 0.9, "pearsonr": 0.7}
    assert table["decides"].to_dict() == {"spearmanr": True, "pearsonr": False}


def test_a_recorded_run_that_diverged_has_no_score_and_is_not_chosen(tmp_path):
    runs = {write_run(tmp_path, "stsb", curve=[(0.6, 0.8)], diverged=True): {}}
    table = collected(tmp_path, "stsb", runs)
    assert table[["value", "best_epoch"]].isna().all(axis=None)
    columns = list_score_columns([TASKS["stsb"]], {})
    every = score_in_all_metrics(chosen_runs.choose_rates(table), tmp_path, columns)
    assert len(every) == 2 and every["value"].isna().all()
    good = write_run(tmp_path, "stsb", curve=[(0.5, 0.5)], seed=1)
    both = collected(tmp_path, "stsb", runs | {good: {"learning_rate": 2e-3}})
    assert chosen_runs.choose_rates(both)["run"].tolist() == [good]


# The standard error of an accuracy of a half is 0.05.
ROWS = 100


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.5, 0.7, 0.8], STILL_RISING),
        ([0.5, 0.76, 0.8], CONVERGED),
        ([0.8, 0.7, 0.74], FELL),
        ([0.8, 0.7, 0.76], CONVERGED),
        # Over the last third, two epochs, the score rises by 0.06.
        ([0.1, 0.2, 0.3, 0.74, 0.77, 0.8], STILL_RISING),
        # The best epoch is in the last third.
        ([0.1, 0.2, 0.3, 0.4, 0.8, 0.7], CONVERGED),
        ([0.5, 0.8], STILL_RISING),
        ([0.8, 0.5], FELL),
        ([0.8], None),
    ],
)
def test_a_run_rises_or_falls_by_more_than_the_noise_of_its_rows(curve, expected):
    assert curve_verdict([curve], ROWS) == expected


@pytest.mark.parametrize(
    ("rises", "expected"),
    # Their mean is 0.02, four standard errors: less than Student's 4.30 for three seeds.
    [
        ([0.019, 0.02, 0.021], STILL_RISING),
        ([0.0113, 0.02, 0.0287], CONVERGED),
        ([0.0121, 0.02, 0.0279], STILL_RISING),
    ],
)
def test_several_seeds_have_students_interval_whatever_the_rows(rises, expected):
    curves = [[0.5, 0.7, 0.7 + rise] for rise in rises]
    assert {curve_verdict(curves, rows) for rows in (10, 10_000)} == {expected}


def test_two_seeds_are_too_few_for_an_interval():
    assert curve_verdict([[0.7, 0.72], [0.7, 0.721]], ROWS) == CONVERGED


def test_runs_that_ended_early_are_aligned_at_their_last_epochs():
    curves = [[0.1, 0.2, 0.8, 0.5], [0.9, 0.6], [0.2, 0.8, 0.51]]
    assert curve_verdict(curves, ROWS) == FELL
    assert curve_verdict([curve[::-1] for curve in curves], ROWS) == CONVERGED


@pytest.mark.parametrize(("seeds", "epochs"), [(1, 3), (1, 8), (5, 3), (5, 8)])
def test_flat_curves_seldom_rise_or_fall(seeds, epochs):
    """The answers to a tenth of the rows are random in each epoch; the others do not change."""
    generator = np.random.default_rng(0)
    undecided = generator.binomial(ROWS // 10, 0.5, (1000, seeds, epochs))
    verdicts = [curve_verdict(curves, ROWS) for curves in 0.7 + undecided / ROWS]
    assert verdicts.count(STILL_RISING) < 30
    assert verdicts.count(FELL) < 100

"""Figures of scores, and of runs that diverged."""

import math

import pandas as pd
import pytest

from subtune import papers
from subtune.exhibits import figures, output
from subtune.exhibits.score_tables import compare_with_printed
from subtune.papers.layernorm.figures import draw_component_changes, draw_scores_by_fraction
from tests.helpers.examples import scored
from tests.helpers.exhibits import results
from tests.unit.analysis import test_statistics

TITLES = {"rte": "RTE", "cola": "CoLA", "squad": "SQuAD"}


def sizes(metric="exact_match", seed=0, **scores):
    """Scores on SQuAD: by method, the scores on 100, 1,000 … rows."""
    numbers = (100, 1000, 10_000)
    by_rows = {method: dict(zip(numbers, v, strict=False)) for method, v in scores.items()}
    return test_statistics.sizes(by_rows, metric, decides=metric == "exact_match", seed=seed)


def by_train_rows(table, *options):
    return figures.draw_scores_by_size(results(TITLES, sizes=table), *options)


def drawn_without_complaint(figure, path, recwarn):
    output.save_figure(figure, [path / "figure.png"])
    assert not list(recwarn)


def test_a_curve_has_a_gap_where_a_run_diverged(tmp_path, recwarn):
    scores = [0.5, math.nan, 0.6]
    rows = [("rte", "layernorm", fraction, "cv", 1e-3, 0, value)
            for fraction, value in zip((0.1, 0.2, 0.4), scores, strict=True)]  # fmt: skip
    diverged = ("rte", "full", 1.0, None, 1e-5, 0, math.nan)
    curve = pd.DataFrame({"run": "r", "metric": "accuracy", "epoch": [1, 2, 3], "score": scores})
    for figure in (
        draw_scores_by_fraction(results(TITLES, chosen=scored(*rows, diverged)), ["cv"], ["full"]),
        figures.draw_learning_curves(
            results(TITLES, chosen=scored(diverged), learning_curves=curve)
        ),
        by_train_rows(sizes(full=scores)),
    ):
        [line] = figure.axes[0].lines
        assert pd.isna(line.get_ydata()).tolist() == [False, True, False]
        drawn_without_complaint(figure, tmp_path, recwarn)


def test_where_every_run_diverged_a_figure_says_so(tmp_path, recwarn):
    none = pd.DataFrame(columns=["model", "task", "method", "parameter", "component", "layer"])
    for figure in (
        draw_component_changes(results(TITLES, changes=none)),
        figures.draw_parameter_changes(results(TITLES, parameter_changes=none), "bitfit", "rte"),
    ):
        assert "diverged" in figure.get_suptitle()
        drawn_without_complaint(figure, tmp_path, recwarn)


def test_a_method_is_a_line_over_the_numbers_of_rows():
    [panel] = by_train_rows(sizes(full=[0.1, 0.6], bitfit=[0.3, 0.5])).axes
    assert panel.get_xscale() == "log" and panel.get_title() == "SQuAD"
    lines = {line.get_label(): line.get_ydata().tolist() for line in panel.lines}
    assert lines == {"Full": [0.1, 0.6], "BitFit": [0.3, 0.5]}
    assert [label.get_text() for label in panel.get_xticklabels()] == ["100", "1,000"]
    assert not panel.collections


def test_a_band_shows_the_spread_over_seeds():
    seeds = [sizes(full=[0.1 + seed / 10, 0.6 + seed / 10], seed=seed) for seed in range(3)]
    [panel] = by_train_rows(pd.concat(seeds)).axes
    assert panel.lines[0].get_ydata().tolist() == pytest.approx([0.2, 0.7])
    [band] = panel.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.1, 0.8))


def test_a_figure_shows_the_deciding_metric_or_the_one_that_is_asked_for():
    table = pd.concat([sizes(full=[0.1], bitfit=[0.2]), sizes("f1", full=[0.3], bitfit=[0.4])])
    for options, label, values in (
        ([], "exact match", [[0.1], [0.2]]),
        (["f1", ["bitfit"]], "F1", [[0.4]]),
    ):
        [panel] = by_train_rows(table, *options).axes
        assert panel.get_ylabel() == label
        assert [line.get_ydata().tolist() for line in panel.lines] == values


def test_every_task_and_model_has_a_panel():
    squad = sizes(full=[0.1, 0.6])
    table = pd.concat([squad, squad.assign(model="other"), squad.assign(task="rte", column="rte")])
    panels = by_train_rows(table).axes
    assert [p.get_title() for p in panels] == ["RTE (minilm)", "SQuAD (minilm)", "SQuAD (other)"]


DEV = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))


@pytest.mark.parametrize(
    ("test", "words"),
    [(None, ""), (DEV.assign(value=0.6), "\nand 1 of the 36 test scores (half filled)")],
)
def test_dev_and_test_scores_are_told_apart_and_counted(test, words):
    table = compare_with_printed(DEV, papers.find_paper("layernorm").read_printed("scores"), test)
    [axes] = figures.draw_reproduction(results(TITLES, reproduction=table)).axes
    assert axes.get_title() == f"1 of the 36 dev scores that the paper prints{words}"
    points = {line.get_fillstyle(): len(line.get_xdata()) for line in axes.lines}
    assert points["bottom"] == bool(words)

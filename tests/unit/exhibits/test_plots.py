"""Figures of scores, and of runs that diverged."""

import math

import pandas as pd
import pytest

from subtune import papers
from subtune.exhibits import heat_maps, methods, output, plots
from subtune.exhibits.plots import joined, score_by_parameters, score_by_train_rows
from tests.helpers.examples import scored
from tests.unit.analysis import test_statistics
from tests.unit.analysis.test_summary import runs

STYLE = {"width": 6.3, "colormap": "viridis"}
TITLES = {"rte": "RTE", "cola": "CoLA"}
SQUAD = {"squad": "SQuAD"}
SCORES = {"full": [1.0, 0.75], "bitfit": [0.8, 0.7], "layernorm": [0.8, 0.8], "frozen": [0.5, 0.5]}


def sizes(metric="exact_match", seed=0, **scores):
    """Scores on SQuAD: by method, the scores on 100, 1,000 … rows."""
    numbers = (100, 1000, 10_000)
    by_rows = {method: dict(zip(numbers, v, strict=False)) for method, v in scores.items()}
    return test_statistics.sizes(by_rows, metric, decides=metric == "exact_match", seed=seed)


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
        plots.score_by_fraction(scored(*rows, diverged), TITLES, ["cv"], ["full"], STYLE),
        plots.learning_curves(scored(diverged), curve, TITLES, STYLE),
        score_by_train_rows(sizes(full=scores), SQUAD, STYLE),
    ):
        [line] = figure.axes[0].lines
        assert pd.isna(line.get_ydata()).tolist() == [False, True, False]
        drawn_without_complaint(figure, tmp_path, recwarn)


def test_where_every_run_diverged_a_figure_says_so(tmp_path, recwarn):
    none = pd.DataFrame(columns=["model", "task", "method", "parameter", "component", "layer"])
    for figure in (
        heat_maps.component_changes(none, TITLES, STYLE),
        heat_maps.parameter_changes(none, TITLES, "bitfit", "rte", STYLE),
        score_by_parameters(runs({"full": [math.nan]}), TITLES, STYLE),
    ):
        assert "diverged" in figure.get_suptitle()
        drawn_without_complaint(figure, tmp_path, recwarn)


def test_a_method_is_a_line_over_the_numbers_of_rows():
    [panel] = score_by_train_rows(sizes(full=[0.1, 0.6], bitfit=[0.3, 0.5]), SQUAD, STYLE).axes
    assert panel.get_xscale() == "log" and panel.get_title() == "SQuAD"
    lines = {line.get_label(): line.get_ydata().tolist() for line in panel.lines}
    assert lines == {"Full": [0.1, 0.6], "BitFit": [0.3, 0.5]}
    assert [label.get_text() for label in panel.get_xticklabels()] == ["100", "1,000"]
    assert not panel.collections


def test_a_band_shows_the_spread_over_seeds():
    seeds = [sizes(full=[0.1 + seed / 10, 0.6 + seed / 10], seed=seed) for seed in range(3)]
    [panel] = score_by_train_rows(pd.concat(seeds), SQUAD, STYLE).axes
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
        [panel] = score_by_train_rows(table, SQUAD, STYLE, *options).axes
        assert panel.get_ylabel() == label
        assert [line.get_ydata().tolist() for line in panel.lines] == values


def test_every_task_and_model_has_a_panel():
    squad = sizes(full=[0.1, 0.6])
    table = pd.concat([squad, squad.assign(model="other"), squad.assign(task="rte", column="rte")])
    panels = score_by_train_rows(table, TITLES | SQUAD, STYLE).axes
    assert [p.get_title() for p in panels] == ["RTE (minilm)", "SQuAD (minilm)", "SQuAD (other)"]


def test_full_and_the_classifier_are_lines_and_the_front_is_not_beaten():
    [panel] = score_by_parameters(runs(SCORES), TITLES, STYLE).axes
    levels = [line.get_ydata()[0] for line in panel.lines if list(line.get_xdata()) == [0, 1]]
    assert levels == [0.875, 0.5]
    assert {tuple(container[0].get_xdata()) for container in panel.containers} == {(100,), (400,)}
    [front] = [line for line in panel.lines if line.get_linewidth() == 3]
    assert list(front.get_xdata()) == [100, 10_000]
    assert list(front.get_ydata()) == [0.8, 0.875]


def test_a_figure_is_written_twice_alike(tmp_path):
    for name in ("a", "b"):
        figure = score_by_parameters(runs(SCORES), TITLES, STYLE)
        output.save_figure(figure, [tmp_path / f"{name}.png"])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_figure_of_too_many_tasks_draws_the_first_and_counts_the_others(monkeypatch):
    monkeypatch.setattr(output, "MOST_PANELS", 2)
    titles = {name: name.upper() for name in ("a", "b", "c")}
    table = pd.concat([runs(SCORES, task=task) for task in titles], ignore_index=True)
    first, note = score_by_parameters(table, titles, STYLE).axes
    assert first.get_title() == "A"
    assert [text.get_text() for text in note.texts] == ["2 more:\nsee the tables"]


def test_the_legend_of_many_methods_is_no_wider_than_the_figure():
    others = {name: [0.8] for name in ("b_m2,b_q", "bitfit without b_m2,b_q", "rand_uniform")}
    figure = score_by_parameters(runs(SCORES | others), TITLES, STYLE)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


DEV = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))


@pytest.mark.parametrize(
    ("test", "words"),
    [(None, ""), (DEV.assign(value=0.6), "\nand 1 of the 36 test scores (half filled)")],
)
def test_dev_and_test_scores_are_told_apart_and_counted(test, words):
    table = methods.reproduction(DEV, papers.find("layernorm").printed("scores"), test)
    [axes] = plots.reproduction(table, TITLES, STYLE).axes
    assert axes.get_title() == f"1 of the 36 dev scores that the paper prints{words}"
    points = {line.get_fillstyle(): len(line.get_xdata()) for line in axes.lines}
    assert points["bottom"] == bool(words)


def test_a_bar_joins_the_largest_groups_within_the_difference():
    assert [*joined([1.0, 1.5, 2.4, 3.9, 4.0], 1.5)] == [(1.0, 2.4), (2.4, 3.9), (3.9, 4.0)]
    assert [*joined([1.0, 3.0], 1.5)] == []
    assert [*joined([1.0, 1.2, 1.4], 1.5)] == [(1.0, 1.4)]

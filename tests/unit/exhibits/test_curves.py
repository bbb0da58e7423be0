"""Figures of curves, and of runs that diverged."""

import math

import pandas as pd
import pytest

from subtune.exhibits import curves, heat_maps, output
from subtune.exhibits.curves import score_by_train_rows
from subtune.exhibits.points import score_by_parameters
from tests.helpers.examples import scored
from tests.unit.analysis import test_statistics
from tests.unit.analysis.test_summary import runs

STYLE = {"width": 6.3, "colormap": "viridis"}


def drawn_without_complaint(figure, path, recwarn):
    output.save_figure(figure, [path / "figure.png"])
    assert not list(recwarn)


def test_a_curve_has_a_gap_where_a_run_diverged(tmp_path, recwarn):
    scores = [0.5, math.nan, 0.6]
    rows = [("rte", "layernorm", fraction, "cv", 1e-3, 0, value)
            for fraction, value in zip((0.1, 0.2, 0.4), scores, strict=True)]  # fmt: skip
    diverged = ("rte", "full", 1.0, None, 1e-5, 0, math.nan)
    table = scored(*rows, diverged)
    curve = pd.DataFrame({"run": "r", "metric": "accuracy", "epoch": [1, 2, 3], "score": scores})
    for figure in (
        curves.score_by_fraction(table, {"rte": "RTE"}, ["cv"], ["full"], STYLE),
        curves.learning_curves(scored(diverged), curve, {"rte": "RTE"}, STYLE),
        score_by_train_rows(sizes(full=scores), SQUAD, STYLE),
    ):
        [line] = figure.axes[0].lines
        assert pd.isna(line.get_ydata()).tolist() == [False, True, False]
        drawn_without_complaint(figure, tmp_path, recwarn)


def test_where_every_run_diverged_a_figure_says_so(tmp_path, recwarn):
    none = pd.DataFrame(columns=["model", "task", "method", "parameter", "component", "layer"])
    for figure in (
        heat_maps.component_changes(none, {"rte": "RTE"}, STYLE),
        heat_maps.parameter_changes(none, {"rte": "RTE"}, "bitfit", "rte", STYLE),
        score_by_parameters(runs({"full": [math.nan]}), {"rte": "RTE"}, STYLE),
    ):
        assert "diverged" in figure.get_suptitle()
        drawn_without_complaint(figure, tmp_path, recwarn)


SQUAD = {"squad": "SQuAD"}


def sizes(metric="exact_match", seed=0, **methods):
    """Scores on SQuAD: method to its scores on 100, 1,000 … rows."""
    numbers = (100, 1000, 10_000)
    by_rows = {method: dict(zip(numbers, v, strict=False)) for method, v in methods.items()}
    return test_statistics.sizes(by_rows, metric, decides=metric == "exact_match", seed=seed)


def test_a_method_is_a_line_over_the_numbers_of_rows_on_a_logarithmic_axis():
    figure = score_by_train_rows(sizes(full=[0.1, 0.6], bitfit=[0.3, 0.5]), SQUAD, STYLE)
    [panel] = figure.axes
    assert panel.get_xscale() == "log" and panel.get_title() == "SQuAD"
    lines = {line.get_label(): line.get_ydata().tolist() for line in panel.lines}
    assert lines == {"Full": [0.1, 0.6], "BitFit": [0.3, 0.5]}
    assert panel.lines[0].get_xdata().tolist() == [100, 1000]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["100", "1,000"]
    assert not panel.collections


def test_a_band_shows_the_spread_over_seeds():
    seeds = [sizes(full=[0.1 + seed / 10, 0.6 + seed / 10], seed=seed) for seed in range(3)]
    [panel] = score_by_train_rows(pd.concat(seeds), SQUAD, STYLE).axes
    assert panel.lines[0].get_ydata().tolist() == pytest.approx([0.2, 0.7])
    [band] = panel.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.1, 0.8))


def test_a_figure_of_one_metric_and_some_methods_shows_those():
    table = pd.concat([sizes(full=[0.1], bitfit=[0.2]), sizes("f1", full=[0.3], bitfit=[0.4])])
    [panel] = score_by_train_rows(table, SQUAD, STYLE, "f1", ["bitfit"]).axes
    assert panel.get_ylabel() == "F1"
    assert [line.get_ydata().tolist() for line in panel.lines] == [[0.4]]
    [panel] = score_by_train_rows(table, SQUAD, STYLE).axes
    assert panel.get_ylabel() == "exact match"
    assert [line.get_ydata().tolist() for line in panel.lines] == [[0.1], [0.2]]


def test_every_task_and_model_has_a_panel():
    squad = sizes(full=[0.1, 0.6])
    table = pd.concat([squad, squad.assign(model="other"), squad.assign(task="rte", column="rte")])
    panels = score_by_train_rows(table, {"rte": "RTE", **SQUAD}, STYLE).axes
    assert [p.get_title() for p in panels] == ["RTE (minilm)", "SQuAD (minilm)", "SQuAD (other)"]

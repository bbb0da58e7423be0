"""Figures of runs that diverged: points are left out, and nothing breaks."""

import math

import pandas as pd
import pytest

from subtune.exhibits.figures import curves, drawing, heat_maps
from tests.helpers.examples import scored

STYLE = {"width": 6.3, "colormap": "viridis"}


def drawn_without_complaint(figure, path, recwarn):
    drawing.save(figure, [path / "figure.png"])
    assert not list(recwarn)


def test_a_fraction_that_diverged_is_left_out_of_its_curve(tmp_path, recwarn):
    rows = [
        ("rte", "layernorm", fraction, "cv", 1e-3, 0, value)
        for fraction, value in ((0.1, 0.5), (0.2, math.nan), (0.4, 0.6))
    ]
    rows.append(("rte", "full", 1.0, None, 1e-5, 0, math.nan))
    figure = curves.score_by_fraction(scored(*rows), {"rte": "RTE"}, ["cv"], ["full"], STYLE)
    [line] = figure.axes[0].lines
    assert pd.isna(line.get_ydata()).tolist() == [False, True, False]
    drawn_without_complaint(figure, tmp_path, recwarn)


def test_the_curve_of_a_run_that_diverged_ends_there(tmp_path, recwarn):
    chosen = scored(("rte", "full", 1.0, None, 1e-5, 0, math.nan))
    curve = pd.DataFrame({"run": "r", "epoch": [1, 2], "score": [0.5, math.nan]})
    figure = curves.learning_curves(chosen, curve.assign(metric="accuracy"), {"rte": "RTE"}, STYLE)
    assert pd.isna(figure.axes[0].lines[0].get_ydata()).tolist() == [False, True]
    drawn_without_complaint(figure, tmp_path, recwarn)


@pytest.mark.parametrize("kind", ["component", "parameter"])
def test_where_every_run_diverged_a_figure_of_changes_says_so(tmp_path, recwarn, kind):
    none = pd.DataFrame(columns=["model", "task", "method", "parameter", "component", "layer"])
    figure = (
        heat_maps.component_changes(none, {"rte": "RTE"}, STYLE)
        if kind == "component"
        else heat_maps.parameter_changes(none, {"rte": "RTE"}, "bitfit", "rte", STYLE)
    )
    assert "diverged" in figure.get_suptitle()
    drawn_without_complaint(figure, tmp_path, recwarn)

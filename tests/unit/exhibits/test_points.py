"""Scores against trained parameters, and against a paper's."""

import pandas as pd
import pytest

from subtune import papers
from subtune.exhibits import output
from subtune.exhibits.methods import reproduction
from subtune.exhibits.points import reproduction as figure
from subtune.exhibits.points import score_by_parameters
from tests.helpers.examples import scored
from tests.unit.analysis.test_summary import runs

STYLE = {"width": 6.3}
TITLES = {"rte": "RTE", "cola": "CoLA"}
SCORES = {"full": [1.0, 0.75], "bitfit": [0.8, 0.7], "layernorm": [0.8, 0.8], "frozen": [0.5, 0.5]}


def test_full_and_the_classifier_are_lines_and_the_front_is_not_beaten():
    [panel] = score_by_parameters(runs(SCORES), TITLES, STYLE).axes
    assert panel.get_xscale() == "log" and panel.get_title() == "RTE"
    levels = [line.get_ydata()[0] for line in panel.lines if list(line.get_xdata()) == [0, 1]]
    assert levels == [0.875, 0.5]
    points = {tuple(container[0].get_xdata()) for container in panel.containers}
    assert points == {(100,), (400,)}
    [front] = [line for line in panel.lines if line.get_linewidth() == 3]
    assert list(front.get_xdata()) == [100, 10_000]
    assert list(front.get_ydata()) == [0.8, 0.875]


def test_every_task_has_a_panel_and_a_file_is_written_twice_alike(tmp_path):
    table = pd.concat([runs(SCORES), runs(SCORES, task="cola")], ignore_index=True)
    for name in ("a", "b"):
        figure = score_by_parameters(table, TITLES, STYLE)
        assert [panel.get_title() for panel in figure.axes] == ["RTE", "CoLA"]
        output.save_figure(figure, [tmp_path / f"{name}.png"])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_figure_of_too_many_tasks_draws_the_first_and_counts_the_others(monkeypatch):
    monkeypatch.setattr(output, "MOST_PANELS", 2)
    titles = {name: name.upper() for name in ("a", "b", "c")}
    table = pd.concat([runs(SCORES, task=task) for task in titles], ignore_index=True)
    figure = score_by_parameters(table, titles, STYLE)
    first, note = figure.axes
    assert first.get_title() == "A"
    assert [text.get_text() for text in note.texts] == ["2 more:\nsee the tables"]


def test_the_legend_of_many_methods_is_no_wider_than_the_figure():
    methods = {name: [0.8, 0.7] for name in ("b_m2,b_q", "bitfit without b_m2,b_q", "rand_uniform")}
    figure = score_by_parameters(runs(SCORES | methods), TITLES, STYLE)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width


DEV = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))


@pytest.mark.parametrize(
    ("test", "words"),
    [(None, ""), (DEV.assign(value=0.6), "\nand 1 of the 36 test scores (half filled)")],
)
def test_dev_and_test_scores_are_told_apart_and_counted(test, words):
    table = reproduction(DEV, papers.find("layernorm").printed("scores"), test)
    [axes] = figure(table, {"rte": "RTE"}, STYLE).axes
    assert axes.get_title() == f"1 of the 36 dev scores that the paper prints{words}"
    points = {line.get_fillstyle(): len(line.get_xdata()) for line in axes.lines}
    assert points["bottom"] == bool(words)

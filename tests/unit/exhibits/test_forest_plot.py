"""The forest plot, compared with the numbers that it shows."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from subtune.exhibits import output
from subtune.exhibits.forest_plot import draw_forest_plot
from tests.helpers.exhibits import results
from tests.unit.analysis.test_answer import of_two_models, runs

SCORES = {
    "full": [0.9, 0.91, 0.92],
    "bitfit": [0.9, 0.91, 0.91],
    "layernorm": [0.8, 0.85, 0.81],
    "frozen": [0.8, 0.8, 0.8],
}


def drawn(table):
    made = results({task: task.upper() for task in table["task"]}, chosen=table)
    return draw_forest_plot(made.summary, made.task_titles)


def panels_of(table):
    return drawn(table).axes


def names(panel):
    """The names of a panel's methods, from the top."""
    low, high = panel.get_ylim()
    assert low > high
    return [label.get_text() for label in panel.get_yticklabels()]


def texts(panel):
    return [text.get_text() for text in panel.texts]


def points(panel, named=None):
    """Each method's point, and the ends of its bar, by the names of the first panel of the line."""
    found = {}
    for container in panel.containers:
        point, _, bars = container
        [y] = point.get_ydata()
        ends = bars[0].get_segments()[0][:, 0].tolist() if bars else []
        found[names(named or panel)[y]] = (point, ends)
    return found


def test_methods_are_rows_from_the_smallest_to_the_largest_with_their_size():
    [panel] = panels_of(runs(SCORES))
    assert names(panel) == ["Frozen", "LayerNorm", "BitFit", "Full"]
    assert texts(panel) == ["parameters", "0", "100", "400", "10 k"]
    assert panel.get_title() == "RTE"


def test_tasks_are_side_by_side_and_share_the_names_of_all_their_methods():
    few = runs({"full": [0.7] * 3, "bitfit": [0.6] * 3}).assign(task="cola")
    table = pd.concat([runs(SCORES), few], ignore_index=True)
    rte, cola = panels_of(table)
    assert names(rte) == ["Frozen", "LayerNorm", "BitFit", "Full"] and names(cola) == []
    assert rte.get_ylim() == cola.get_ylim() and rte.get_position().y0 == cola.get_position().y0
    assert points(cola, rte)["BitFit"][0].get_xdata() == pytest.approx([0.6])
    assert points(cola, rte).keys() == {"BitFit", "Full"}


def test_each_task_shows_its_best_method_if_another_task_has_too_many():
    """The methods of the second task belong to a model that is not the reference's."""
    many = {f"m{n}": [0.9] * 3 for n in range(17)}
    few = {"worst": [0.5] * 3, "best": [0.6] * 3}
    full = {"full": [0.95] * 3}
    second = of_two_models(few, full).assign(task="cola")
    panels = panels_of(pd.concat([of_two_models(many, full), second], ignore_index=True))
    [names_of] = [panel for panel in panels if len(names(panel)) == 16]
    [cola] = [panel for panel in panels if panel.get_title() == "COLA, large"]
    assert points(cola, names_of).keys() == {"best"}


def test_more_tasks_than_fit_side_by_side_begin_another_line_with_names():
    table = pd.concat([runs(SCORES).assign(task=f"task {n}") for n in range(7)], ignore_index=True)
    panels = panels_of(table)
    assert [len(names(panel)) for panel in panels] == [4, 0, 0, 0, 0, 4, 0]
    assert panels[0].get_figure().get_size_inches()[0] < 7


def test_a_bar_is_the_interval_of_the_paired_difference_placed_at_the_references_score():
    made = results({"rte": "RTE"}, chosen=runs(SCORES))
    [panel] = draw_forest_plot(made.summary, made.task_titles).axes
    row = made.summary.set_index("method").loc["bitfit"]
    point, ends = points(panel)["BitFit"]
    assert point.get_xdata().tolist() == pytest.approx([row["score"]])
    assert ends == pytest.approx([0.91 + row["low"], 0.91 + row["high"]])
    assert points(panel)["Full"][1] == []


def test_limits_do_not_depend_on_the_unit_of_a_scorer():
    limits = []
    for unit in (0.5, 100):
        scores = {"full": [unit, 0.9 * unit, unit], "bitfit": [0.9 * unit, unit, unit]}
        table = runs(scores).assign(metric="mine.py:score", margin=0.02 * unit)
        [panel] = panels_of(table)
        limits.append(np.array(panel.get_xlim()) / unit)
    np.testing.assert_allclose(*limits)


def test_the_band_is_the_margin_below_the_reference():
    [panel] = panels_of(runs(SCORES))
    [band] = panel.patches
    assert (band.get_x(), band.get_width()) == pytest.approx((0.89, 0.02))
    assert "within 0.02 of Full" in panel.get_figure().get_supxlabel()


def test_a_sure_method_is_filled_and_what_trains_nothing_looks_different():
    shown = {name: point for name, (point, _) in points(panels_of(runs(SCORES))[0]).items()}
    assert shown["BitFit"].get_markerfacecolor() == shown["BitFit"].get_color()
    assert shown["LayerNorm"].get_markerfacecolor() == "white"
    assert shown["Frozen"].get_marker() != shown["LayerNorm"].get_marker()


def test_external_predictions_are_last_and_look_different():
    table = runs(SCORES | {"gpt": [0.9, 0.9, 0.9]})
    is_external = table["method"] == "gpt"
    table["encoder_size"] = pd.array(np.where(is_external, None, 20_000), "Int64")
    [panel] = panels_of(table)
    assert names(panel)[-1] == "gpt" and points(panel)["gpt"][0].get_marker() == "D"


@pytest.mark.parametrize(("score", "is_drawn"), [(0.3, False), (1.9, True)])
def test_a_floor_far_below_is_a_number_at_the_edge(score, is_drawn):
    [panel] = panels_of(runs(SCORES | {"frozen": [score] * 3}))
    assert (f"◂ {score:.3f}" in texts(panel)) is not is_drawn
    low, high = panel.get_xlim()
    assert low > 0.5 and (high > 1.9) == is_drawn


def test_each_model_has_a_panel_with_the_same_reference():
    table = of_two_models({"full": [0.9] * 3, "layernorm": [0.85] * 3}, {"full": [0.87] * 3})
    small, large = panels_of(table)
    assert (small.get_title(), large.get_title()) == ("RTE, small", "RTE, large")
    assert (names(small), names(large)) == (["Full"], ["LayerNorm", "Full"])
    for panel in (small, large):
        assert panel.patches[0].get_x() == pytest.approx(0.88)


def test_sixteen_methods_are_drawn_and_long_names_stay_within_the_figure():
    others = {f"method number {n:02} with a long name": [0.5 + n / 100] for n in range(30)}
    figure = drawn(runs({"full": [0.9]} | others))
    [panel] = figure.axes
    assert len(names(panel)) == 16
    assert all("with a long name" in name.replace("\n", " ") for name in names(panel)[1:-1])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in (*panel.get_yticklabels(), *panel.texts)]
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.width
    # Names of two lines do not overlap.
    of_names = [text.get_window_extent() for text in panel.get_yticklabels()]
    of_names.sort(key=lambda box: box.y0)
    for lower, upper in itertools.pairwise(of_names):
        assert lower.y1 <= upper.y0


def test_a_panel_without_full_shows_what_there_is(recwarn):
    alone = drawn(runs({"bitfit": [0.8]}))
    alone.draw_without_rendering()
    assert names(alone.axes[0]) == ["BitFit"] and not list(recwarn)
    [panel] = panels_of(runs({"bitfit": [0.8] * 3, "layernorm": [0.7] * 3}))
    assert names(panel) == ["LayerNorm", "BitFit"]
    assert "of BitFit" in panel.get_figure().get_supxlabel()


def test_where_every_run_diverged_the_figure_says_so():
    figure = drawn(runs({"full": [math.nan]}))
    assert "diverged" in figure.get_suptitle()


def test_a_figure_is_written_twice_alike(tmp_path):
    for name in ("a", "b"):
        figure = drawn(runs(SCORES))
        output.save_figure(figure, [tmp_path / f"{name}.png"])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_method_without_some_folds_has_the_references_score_on_its_folds():
    """BitFit lacks a hard fold. No point and no axis is at an accuracy far above 1."""
    table = runs({"full": [0.98, 0.96, 0.5], "bitfit": [1.0, 0.97]}).assign(planned=5)
    table["fold"] = table["seed"]
    [panel] = panels_of(table)
    assert " 2/5" in texts(panel)
    point, _ = points(panel)["BitFit"]
    [line] = [line for line in panel.lines if line.get_marker() == "|"]
    assert (point.get_xdata()[0], line.get_xdata()[0]) == pytest.approx((0.985, 0.97))
    assert "line: Full on the same folds" in panel.get_figure().get_supxlabel()
    assert panel.get_xlim()[1] < 1.05

"""Figures of scores, and of runs that diverged."""

import math

import numpy as np
import pandas as pd
import pytest

from subtune import papers
from subtune.exhibits import figures, heat_maps, output
from subtune.exhibits.figures import NAMES_APART, draw_front
from subtune.exhibits.score_tables import compare_with_printed
from tests.helpers.examples import scored
from tests.helpers.exhibits import results
from tests.unit.analysis import test_statistics
from tests.unit.analysis.test_answer import runs

SCORES = {"full": [1.0, 0.75], "bitfit": [0.9, 0.8], "layernorm": [0.8, 0.8], "frozen": [0.7, 0.8]}


def drawn(table, titles=None):
    return draw_front(results(titles or {"rte": "RTE"}, chosen=table))


def panel_of(scores):
    [panel] = drawn(runs(scores)).axes
    return panel


def names(panel):
    """The names beside a panel, from the lowest."""
    return [text.get_text() for text in panel.texts]


def points(panel):
    """Each point's marker, by its number of parameters and score."""
    lines = [container[0] for container in panel.containers]
    return {(*line.get_xdata(), *line.get_ydata()): line for line in lines}


def test_full_and_the_classifier_are_lines_and_the_front_is_not_beaten():
    panel = panel_of(SCORES)
    levels = [line.get_ydata()[0] for line in panel.lines if list(line.get_xdata()) == [0, 1]]
    assert levels == [0.875, 0.75]
    assert {key[0] for key in points(panel)} == {100, 400}
    [front] = [line for line in panel.lines if line.get_linewidth() == 3]
    assert list(front.get_xdata()) == [100, 400]
    assert list(front.get_ydata()) == pytest.approx([0.8, 0.85])


def test_a_method_sure_to_be_within_the_margin_is_filled_and_its_name_is_bold():
    near = [0.86, 0.85, 0.87]
    scores = {"full": near, "bitfit": near, "layernorm": [0.86, 0.6, 0.87], "frozen": near}
    panel = panel_of(scores)
    fills = {key[0]: line.get_markerfacecolor() for key, line in points(panel).items()}
    assert fills[100] == "white" and fills[400] == points(panel)[400, 0.86].get_color()
    bold = {text.get_text() for text in panel.texts if text.get_fontweight() == "bold"}
    assert bold == {"BitFit", "classifier alone"}


def test_eight_methods_are_named_and_the_others_are_grey():
    others = {f"own_{number}": [0.7 + number / 100] for number in range(10)}
    panel = panel_of({"full": [0.9], **others})
    assert names(panel) == [f"own_{number}" for number in range(2, 10)] + ["Full"]
    grey = {key[1] for key, line in points(panel).items() if line.get_color() == "0.75"}
    assert grey == {0.7, 0.71}


def test_a_line_far_from_all_points_is_named_with_its_score():
    panel = panel_of({"full": [0.9], "bitfit": [0.85], "layernorm": [0.8], "frozen": [0.3]})
    assert names(panel)[0] == "classifier alone: 0.30"
    low, high = panel.get_ylim()
    assert 0.75 < low < 0.8 and 0.9 < high < 0.95


def test_names_of_equal_scores_are_a_line_apart():
    alike = {name: [0.8, 0.8] for name in ("bitfit", "layernorm", "lora-I", "rand_uniform")}
    heights = np.array([text.get_position()[1] for text in panel_of(SCORES | alike).texts])
    assert (np.diff(heights) > NAMES_APART - 1e-9).all() and heights[0] >= 0 and heights[-1] <= 1


def test_masks_of_one_kind_are_joined():
    whole = runs({"full": [0.9], "layernorm": [0.85]})
    masks = [runs({"layernorm": [0.7 + f]}, fraction=f, scope="cv") for f in (0.05, 0.1)]
    [panel] = drawn(pd.concat([whole, *masks], ignore_index=True)).axes
    assert names(panel) == ["LayerNorm, masked", "LayerNorm", "Full"]
    assert [5, 10] in [list(line.get_xdata()) for line in panel.lines]


@pytest.mark.parametrize("method", ["layernorm", "bitfit"])
def test_a_panel_of_one_size_shows_two_powers_of_ten(method):
    low, high = panel_of({"full": [0.9], method: [0.85]}).get_xlim()
    assert sum(low <= 10**power <= high * (1 + 1e-9) for power in range(7)) >= 2


def test_a_panel_of_lines_alone_shows_them():
    assert names(panel_of({"full": [0.9], "frozen": [0.3]})) == ["classifier alone", "Full"]


def test_where_every_run_diverged_the_figure_says_so():
    assert "diverged" in drawn(runs({"full": [math.nan]})).get_suptitle()


def test_a_figure_is_written_twice_alike(tmp_path):
    for name in ("a", "b"):
        output.save_figure(drawn(runs(SCORES)), [tmp_path / f"{name}.png"])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_long_names_stay_within_the_figure():
    others = {name: [0.8] for name in ("b_m2,b_q", "bitfit without b_m2,b_q", "rand_uniform")}
    figure = drawn(runs(SCORES | others))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert max(box.x1 for box in boxes) <= figure.bbox.width


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
        figures.draw_scores_by_fraction(
            results(TITLES, chosen=scored(*rows, diverged)), ["cv"], ["full"]
        ),
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
        heat_maps.draw_component_changes(results(TITLES, changes=none)),
        heat_maps.draw_parameter_changes(results(TITLES, parameter_changes=none), "bitfit", "rte"),
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
    table = compare_with_printed(DEV, papers.find_paper("layernorm").printed("scores"), test)
    [axes] = figures.draw_reproduction(results(TITLES, reproduction=table)).axes
    assert axes.get_title() == f"1 of the 36 dev scores that the paper prints{words}"
    points = {line.get_fillstyle(): len(line.get_xdata()) for line in axes.lines}
    assert points["bottom"] == bool(words)

"""Reported scores against ours."""

from subtune.analysis.reproduction import reproduction
from subtune.exhibits.figures.reproduction import reproduction as figure
from subtune.papers import printed
from tests.helpers.examples import scored

DEV = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))


def drawn(test):
    table = reproduction(DEV, printed.scores("layernorm"), test)
    [axes] = figure(table, {"rte": "RTE"}, {"width": 6.3}).axes
    points = {line.get_fillstyle(): len(line.get_xdata()) for line in axes.lines}
    return axes.get_title(), points


def test_dev_and_test_scores_are_told_apart_and_counted():
    title, points = drawn(DEV.assign(value=0.6))
    assert title == (
        "1 of the 36 dev scores that the paper prints\nand 1 of the 36 test scores (half filled)"
    )
    assert points["bottom"] == 1


def test_without_test_scores_there_is_no_word_of_them():
    assert drawn(None)[0] == "1 of the 36 dev scores that the paper prints"

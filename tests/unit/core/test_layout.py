"""Paths in the results."""

from subtune.core.layout import Layout


def test_printed_scores_beside_ours_lie_beside_their_figure():
    layout = Layout("out")
    assert layout.data("bitfit", "chosen") == "out/experiments/bitfit/data/chosen.csv"
    assert layout.data("bitfit", "reproduction") == layout.exhibit("bitfit", "reproduction", "csv")

"""Where things lie in the results."""

import pytest

from subtune.core.layout import Layout, folder_of


@pytest.mark.parametrize(
    ("experiment", "folder"),
    [
        ("bitfit", "bitfit"),
        ("a+b", "a+b"),
        ("train", "_train"),
        ("Runs", "_Runs"),
        ("report.html", "_report.html"),
    ],
)
def test_an_experiment_of_a_reserved_name_has_a_folder_of_its_own(experiment, folder):
    assert folder_of(experiment) == folder


def test_printed_scores_beside_ours_lie_beside_their_figure():
    layout = Layout("out")
    assert layout.data("bitfit", "chosen") == "out/bitfit/data/chosen.csv"
    assert layout.data("bitfit", "reproduction") == layout.exhibit("bitfit", "reproduction", "csv")

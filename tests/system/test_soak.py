"""Differences that the soak reports."""

import pandas as pd
import pytest

from tests.system import soak


def results(directory, score="0.5", seconds="1", files=("runs.csv", "logs/job.csv")):
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"score": [score], "seconds": [seconds]}).to_csv(directory / name, index=False)
    return directory


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({}, []),
        ({"seconds": "2"}, []),
        ({"score": "0.50001"}, ["runs.csv: differs"]),
        ({"files": ["runs.csv"]}, []),
        ({"files": []}, ["runs.csv: only in "]),
    ],
)
def test_scores_are_compared_and_times_are_not(change, problems, tmp_path):
    expected = results(tmp_path / "undisturbed")
    actual = results(tmp_path / "disturbed", **change)
    lines = [f"{path}: {problem}" for path, problem in soak.differences(expected, actual)]
    assert len(lines) == len(problems)
    assert all(map(str.startswith, lines, problems))

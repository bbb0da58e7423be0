"""Answers and costs as tables, and as lines of a terminal."""

import pandas as pd
import pytest

from subtune.tables import writing
from subtune.tables.summary import answers_in_words, bytes_in_words, methods_by_score
from subtune.tables.terminal import answers_in_lines
from tests.unit.analysis.test_summary import runs

TITLES = {"rte": "RTE"}
SCORES = {"full": [0.9] * 3, "bitfit": [0.89] * 3, "frozen": [0.5, 0.6, float("nan")]}


def test_programs_read_numbers_and_people_words(tmp_path):
    made = methods_by_score(runs(SCORES), TITLES)
    writing.write(made, [tmp_path / "summary.csv", tmp_path / "summary.md"])
    numbers = pd.read_csv(tmp_path / "summary.csv")
    assert numbers["score"].tolist()[:2] == pytest.approx([0.9, 0.89])
    lines = (tmp_path / "summary.md").read_text().splitlines()
    bitfit = [cell.strip() for cell in lines[3].split("|")]
    assert bitfit[4:8] == ["**BitFit**", "0.8900 ± 0.0000", "-0.0100", "-0.0100 to -0.0100"]
    assert bitfit[8:11] == ["400", "4 %", "1.6 kB"]
    assert "diverged" in lines[4]


def test_answers_that_runs_are_enough_for_are_bold():
    sure = answers_in_words(runs(SCORES), TITLES)
    unsure = answers_in_words(runs({"full": [0.9], "bitfit": [0.9]}), TITLES)
    assert [made.emphasis.bold["task"].tolist() for made in (sure, unsure)] == [[True], [False]]
    assert sure.shown["task"].tolist() == ["RTE"]


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_lines_are_no_wider_than_the_terminal(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    path = tmp_path / "answers.csv"
    writing.write(answers_in_words(runs(SCORES), TITLES), [path])
    lines = answers_in_lines(path).splitlines()
    assert "  rte: BitFit, 400 parameters" in answers_in_lines(path)
    assert max(map(len, lines[:-1])) <= max(columns, len(lines[2]))


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (43_210, "43.2 kB"), (9.1e7, "91 MB"), (2.5e9, "2.5 GB")],
)
def test_sizes_are_shown_with_a_unit(count, words):
    assert bytes_in_words(count) == words

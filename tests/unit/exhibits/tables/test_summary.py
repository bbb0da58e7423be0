"""Answers and costs as tables, and as lines of a terminal."""

import pandas as pd
import pytest

from subtune.exhibits.tables import writing
from subtune.exhibits.tables.answers import answers_in_lines, smallest_methods
from subtune.exhibits.tables.summary import file_size, methods_by_score
from tests.unit.analysis.test_summary import runs

TITLES = {"rte": "RTE"}
SMALLEST, CONFIDENT = "smallest within 0.02", "smallest with 95 % confidence"
NEEDED = "still needed"
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


@pytest.mark.parametrize(
    ("at_edge", "curve", "remark"),
    [
        (False, "converged", "–"),
        (True, "converged", "at the edge"),
        (False, "fell", "fell"),
        (True, "still rising", "at the edge, still rising"),
        (False, None, "–"),
    ],
)
def test_what_is_not_tuned_or_not_done_has_a_remark(tmp_path, at_edge, curve, remark):
    made = methods_by_score(runs({"full": [0.9]}).assign(at_edge=at_edge, curve=curve), TITLES)
    assert made.shown["remarks"].tolist() == [remark]
    assert made.table[["at_edge", "curve"]].to_numpy().tolist() == [[at_edge, curve]]


@pytest.mark.parametrize(
    ("scores", "smallest", "confident", "needed"),
    [
        (SCORES, "BitFit", "BitFit", "–"),
        ({"full": [0.9], "bitfit": [0.9]}, "BitFit", "–", "2 more seeds"),
        ({"full": [0.9], "bitfit": [0.5]}, "none; nearest is BitFit", "–", "2 more seeds"),
        ({"bitfit": [0.5]}, "Full fine-tuning is not among the methods: add `full`.", None, None),
    ],
)
def test_an_answer_is_bold_if_the_runs_are_enough_and_says_why_there_is_none(
    scores, smallest, confident, needed
):
    made = smallest_methods(runs(scores), TITLES)
    assert made.bold[CONFIDENT].tolist() == [confident == "BitFit"]
    [row] = made.shown[["task", SMALLEST, CONFIDENT, NEEDED]].astype(object).to_numpy()
    assert [None if pd.isna(cell) else cell for cell in row] == ["RTE", smallest, confident, needed]


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_lines_are_no_wider_than_the_terminal(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    path = tmp_path / "answers.csv"
    writing.write(smallest_methods(runs(SCORES), TITLES), [path])
    lines = answers_in_lines(path).splitlines()
    assert "  RTE: Yes: BitFit (400 parameters" in answers_in_lines(path)
    assert max(map(len, lines[:-1])) <= max(columns, len(lines[2]))


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (43_210, "43.2 kB"), (9.1e7, "91 MB"), (2.5e9, "2.5 GB")],
)
def test_sizes_are_shown_with_a_unit(count, words):
    assert file_size(count) == words

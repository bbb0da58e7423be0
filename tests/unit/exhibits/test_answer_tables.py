"""Answers and costs as tables, and as lines on a terminal."""

import pandas as pd
import pytest

from subtune.analysis.answer import find_answers, format_chance, short_answer
from subtune.exhibits import output
from subtune.exhibits.answer_tables import answers_table, format_answers, format_size, summary_table
from tests.helpers.exhibits import results
from tests.unit.analysis.test_answer import runs

TITLES = {"rte": "RTE"}
LOSSES = ["parameters", "score", "loss", "at most", "within 0.02"]
SCORES = {"full": [0.9] * 3, "bitfit": [0.89] * 3, "frozen": [0.5, 0.6, float("nan")]}


def test_programs_read_numbers_and_people_words(tmp_path):
    made = summary_table(results(TITLES, chosen=runs(SCORES)))
    output.write_table(made, [tmp_path / "summary.csv", tmp_path / "summary.md"])
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
    chosen = runs({"full": [0.9]}).assign(at_edge=at_edge, curve=curve)
    made = summary_table(results(TITLES, chosen=chosen))
    assert made.shown["remarks"].tolist() == [remark]
    assert made.table[["at_edge", "curve"]].to_numpy().tolist() == [[at_edge, curve]]


def test_methods_are_listed_from_the_smallest_with_loss_and_chance():
    made = answers_table(results(TITLES, chosen=runs(SCORES)))
    assert made.shown[["method", *LOSSES]].to_numpy().tolist() == [
        ["Frozen", "0", "diverged", "–", "–", "–"],
        ["BitFit", "400", "0.8900", "0.0100", "0.0100", "> 99 %"],
        ["Full", "10,000", "0.9000", "–", "–", "–"],
    ]
    assert made.bold["method"].tolist() == [False, True, False]


def test_losses_against_another_method_than_full_name_it():
    beaten = {"full": [0.5] * 3, "lora-I": [0.9] * 3, "bitfit": [0.8] * 3}
    made = answers_table(results(TITLES, chosen=runs(beaten)))
    assert made.shown.set_index("method")[["against", "loss"]].to_numpy().tolist() == [
        ["LoRA-I", "0.1000"],
        ["–", "–"],
        ["LoRA-I", "0.4000"],
    ]
    assert made.bold["method"].tolist() == [False, True, False]
    shown = summary_table(results(TITLES, chosen=runs(beaten))).shown
    assert shown["difference"].tolist() == ["–", "-0.1000", "-0.4000"]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (SCORES, "Train BitFit, > 99 %"),
        ({"full": [0.9] * 3, "bitfit": [0.93, 0.87, 0.9]}, "Probably BitFit, 82 %"),
        ({"full": [0.9], "embeddings": [0.9]}, "Probably nothing (embeddings)"),
        ({"full": [0.9] * 3, "bitfit": [0.5] * 3}, "Train everything (full)"),
        ({"full": [0.9] * 3}, "No answer yet"),
    ],
)
def test_an_answer_so_far_is_a_few_words(scores, words):
    [answer] = find_answers(runs(scores))
    assert short_answer(answer) == words


@pytest.mark.parametrize(
    ("chance", "words"), [(0.001, "< 1 %"), (0.5, "50 %"), (0.949, "95 %"), (1.0, "> 99 %")]
)
def test_a_chance_is_never_certain(chance, words):
    assert format_chance(chance) == words


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_lines_are_no_wider_than_the_terminal(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    path = tmp_path / "answers.csv"
    output.write_table(answers_table(results(TITLES, chosen=runs(SCORES))), [path])
    lines = format_answers(path).splitlines()
    assert lines[1] == "Which few parameters are worth fine-tuning?"
    assert "  RTE: Train BitFit (400 parameters" in format_answers(path)
    assert max(map(len, lines[2:-1])) <= columns


def test_a_single_question_has_the_losses_below_its_answer(tmp_path):
    for name, make in (("answers", answers_table), ("summary", summary_table)):
        output.write_table(make(results(TITLES, chosen=runs(SCORES))), [tmp_path / f"{name}.csv"])
    table = format_answers(tmp_path / "answers.csv").split("\n\n")[-2].splitlines()
    assert table[0].split()[:4] == ["method", "parameters", "score", "loss"]
    assert table[2].split()[:4] == ["BitFit", "400", "0.8900", "0.0100"]


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (43_210, "43.2 kB"), (9.1e7, "91 MB"), (2.5e9, "2.5 GB")],
)
def test_sizes_are_shown_with_a_unit(count, words):
    assert format_size(count) == words

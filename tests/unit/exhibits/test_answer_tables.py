"""Answers and costs as tables, and as lines on a terminal."""

import math

import pandas as pd
import pytest

from subtune.analysis.answer import find_answers, format_probability, short_answer
from subtune.exhibits import output
from subtune.exhibits.answer_tables import answers_table, format_answers, summary_table
from tests.helpers.exhibits import NO_ROW_SCORES, results
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
        ["BitFit", "400", "0.890", "0.010", "0.010", "> 99 %"],
        ["Full", "10,000", "0.900", "–", "–", "–"],
    ]
    assert made.bold["method"].tolist() == [False, True, False]


def test_losses_against_another_method_than_full_name_it():
    beaten = {"full": [0.5] * 3, "lora-I": [0.9] * 3, "bitfit": [0.8] * 3}
    made = answers_table(results(TITLES, chosen=runs(beaten)))
    assert made.shown["against"].tolist() == ["LoRA-I", "–", "LoRA-I"]
    assert made.shown["loss"].tolist() == ["0.100", "–", "0.400"]
    assert made.bold["method"].tolist() == [False, True, False]
    shown = summary_table(results(TITLES, chosen=runs(beaten))).shown
    assert shown["difference"].tolist() == ["–", "-0.1000", "-0.4000"]


def test_without_a_score_there_is_no_answer_yet():
    [answer] = find_answers(runs({"full": [math.nan]}), NO_ROW_SCORES)
    assert short_answer(answer) == "No score yet."


@pytest.mark.parametrize(
    ("chance", "words"), [(0.001, "< 1 %"), (0.5, "50 %"), (0.949, "95 %"), (1.0, "> 99 %")]
)
def test_a_chance_is_never_certain(chance, words):
    assert format_probability(chance) == words


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_lines_are_no_wider_than_the_terminal(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    path = tmp_path / "answers.csv"
    output.write_table(answers_table(results(TITLES, chosen=runs(SCORES))), [path])
    lines = format_answers(path).splitlines()
    assert " ".join(lines[1:3]).startswith("BitFit is enough: 0.890 against")
    assert max(map(len, lines[:-1])) <= columns


def test_a_single_question_has_the_losses_below_its_answer(tmp_path):
    for name, make in (("answers", answers_table), ("summary", summary_table)):
        output.write_table(make(results(TITLES, chosen=runs(SCORES))), [tmp_path / f"{name}.csv"])
    shown = format_answers(tmp_path / "answers.csv")
    sentences, table, score, _ = shown.strip().split("\n\n")
    assert score == "Score: accuracy."
    assert sentences.splitlines() == [
        "BitFit is enough: 0.890 against 0.900 (> 99 %).",
        "No more runs are needed.",
    ]
    header, _, bitfit, _ = map(str.split, table.splitlines())
    assert header[:6] == ["method", "name", "parameters", "score", "seeds", "loss"]
    assert bitfit[:6] == ["BitFit", "bitfit", "400", "0.890", "3/3", "0.010"]


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("at_edge", True, "the best learning rate is the smallest or largest of those tried"),
        ("curve", "still rising", "still rising in the last epoch, so more epochs may help"),
        ("curve", "fell", "the score fell after the best epoch"),
        ("one_answer", True, "gives the same prediction for every example in 3 of 3 runs"),
        ("share_read", 0.4, "40% of the texts' tokens are read"),
    ],
)
def test_a_detail_is_a_mark_with_a_line_that_explains_it(column, value, text):
    chosen = runs(SCORES).assign(share_read=0.99, planned=3)
    assert "marks" not in answers_table(results(TITLES, chosen=chosen)).shown
    chosen[column] = chosen[column].astype(object)
    chosen.loc[chosen["method"] == "bitfit", column] = value
    made = answers_table(results(TITLES, chosen=chosen.infer_objects()))
    assert made.shown["marks"].tolist() == ["", "a", ""]
    assert f"Marks: (a) {text}" in made.note


def test_the_table_shows_how_many_of_the_planned_runs_are_compared():
    """LayerNorm diverged."""
    made = answers_table(results(TITLES, chosen=runs(SCORES).assign(planned=5)))
    assert made.shown["seeds"].tolist() == ["0/5", "3/5", "3/5"]


def test_several_models_have_a_column_and_the_smallest_is_first():
    other = runs({"full": [0.8] * 3}).assign(model="small", encoder_size=100)
    both = [runs(SCORES).assign(model="large", encoder_size=9_000), other]
    chosen = pd.concat(both, ignore_index=True).assign(across_models=True)
    chosen["run"] = chosen.index.astype(str)
    shown = answers_table(results(TITLES, chosen=chosen)).shown
    assert shown["model"].tolist() == ["small", "large", "large", "large"]
    assert shown["method"].tolist() == ["Full", "Frozen", "BitFit", "Full"]

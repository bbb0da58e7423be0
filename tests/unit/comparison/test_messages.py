"""Lines of `subtune init` about tables from public bug reports."""

from pathlib import Path

import pandas as pd
import pytest

from subtune.comparison import Options
from subtune.comparison.first_configuration import write_first_configuration
from subtune.core.errors import SubtuneError

SUBJECTS = ("the first train", "a long dinner", "our old bank card", "this new phone")
TITLES = [f"{who} {what}" for who in ("Ada", "Emmy", "Grace", "Mary") for what in "ABCDEFGHIJ"]


def frame(labels=("good", "bad"), label="label", rows: int = 200, **others) -> pd.DataFrame:
    """Different texts with labels in turn, behind other columns."""
    texts = [f"{SUBJECTS[n % 4]} was late by {n} minutes" for n in range(rows)]
    cells = [labels[n % len(labels)] for n in range(rows)]
    return pd.DataFrame({**others, "text": texts, label: cells})


def titles() -> pd.DataFrame:
    """Titles with codes, dates and genres."""
    numbers = range(len(TITLES))
    codes = {"imdb": [f"tt{n:07}" for n in numbers]}
    dates = {"when": [f"2021-03-{1 + n % 28:02} 10:{n:02}" for n in numbers]}
    return pd.DataFrame({**codes, **dates, "title": TITLES, "genre": ["comedy", "drama"] * 20})


TWO = "2 classes: bad (100), good (100)"
# A function that writes the file of this name, and lines about it without "(guessed; …)".
SAID = {
    "JSON lines called JSON": (
        "t.json",
        lambda path: frame().to_json(path, orient="records", lines=True),
        ["text: column 'text'", "label: column 'label'", TWO],
    ),
    "a name in capitals": (
        "t.csv",
        lambda path: frame(label="Sentiment", author=["me", "you"] * 100).to_csv(path, index=False),
        ["text: column 'text'", "label: column 'Sentiment'", TWO],
    ),
    "two rows without a label at the end": (
        "t.csv",
        lambda path: frame(["x", "y"] * 99 + [None] * 2).to_csv(path, index=False),
        [
            "t.csv: 2 of 200 rows left out because they have no text or no label: line 200, "
            "line 201",
            "2 classes: x (99), y (99)",
        ],
    ),
    "words that the model does not know": (
        "t.csv",
        lambda path: (
            frame().assign(text=[f"สะอาด้ {n}" for n in range(200)]).to_csv(path, index=False)
        ),
        [
            "50% of the tokens are unknown to the model, so its scores are a poor basis for "
            "comparing methods; choose a model for the language of these texts",
        ],
    ),
    "titles with ids and dates": (
        "t.csv",
        lambda path: titles().to_csv(path, index=False),
        [
            "text: column 'title'",
            "label: column 'genre', the only column that can be the label",
        ],
    ),
    "the index of pandas": (
        "t.csv",
        lambda path: frame().to_csv(path),
        ["text: column 'text'", TWO],
    ),
}


# The first line of a file, its labels, and the line about it.
NO_HEADER = {
    "a word": ("a text about 1,b", ["a", "b"], "t.csv: the first line looks like a row ('b' looks"),
    "a number": (
        "a text about 1,2.5",
        [1.5, 3.5],
        "t.csv: the first line looks like a row ('2.5' looks",
    ),
    "a word of the labels": ("text,a", ["a", "b"], "t.csv: 30 rows for training; columns text, a"),
    "a header": ("text,is good", [0, 1], "t.csv: 30 rows for training; columns text, is good"),
    "pandas' numbers": ("0,2", [0, 1], "t.csv: 30 rows for training; columns 0, 2"),
}


@pytest.fixture
def said(tmp_path, monkeypatch):
    """A function that returns the lines of `subtune init` before the model's line, or the error."""
    monkeypatch.chdir(tmp_path)

    def said(path: str, **options) -> list[str]:
        found = []
        try:
            paths = {"train": Path(path)}
            for line in write_first_configuration(paths, Options(**options), Path("out.yaml")):
                if line.startswith("model: "):
                    break
                found.append(line)
        except SubtuneError as error:
            assert "\n" not in str(error)
            found = [str(error)]
        assert not Path("out.yaml").exists()
        return found

    return said


@pytest.mark.parametrize(("file", "write", "lines"), SAID.values(), ids=SAID)
def test_a_table_of_a_bug_report_is_read(said, file, write, lines):
    write(file)
    found = said(file)
    for line in lines:
        assert any(of.startswith(line) for of in found), found


@pytest.mark.parametrize(("header", "labels", "line"), NO_HEADER.values(), ids=NO_HEADER)
@pytest.mark.fault("data", "no header, no possible label column", "rejected with reasons")
def test_a_first_line_that_is_a_row_is_refused(said, header, labels, line):
    rows = frame(labels, rows=30).to_csv(index=False, header=False)
    Path("t.csv").write_text(f"{header}\n{rows}")
    assert said("t.csv")[0].startswith(line)


def test_more_than_200_classes_are_accepted_if_asked_for(said):
    frame([f"intent {n}" for n in range(210)], rows=840).to_csv("t.csv", index=False)
    assert said("t.csv")[0].endswith(
        "expected at most 200 classes; if each label is a class, add --classes"
    )
    assert said("t.csv", kind="classification")[3].startswith("210 classes: intent 0 (4), ")


@pytest.mark.fault(
    "data",
    "dates as labels; more than 200 classes",
    "accepted only with `--label`; with `--classes`",
)
def test_dates_are_labels_only_if_asked_for(said):
    days = [f"2021-03-{day:02}" for day in range(1, 29)]
    frame(days, label="day").to_csv("t.csv", index=False)
    assert "(text: sentences, day: dates); choose one of text, day" in said("t.csv")[0]
    assert said("t.csv", label="day")[3].startswith("28 classes: 2021-03-01 (8), ")


@pytest.mark.parametrize("words", ["june may", "T1 T2", "1/5 2/5", "x2 x²", "3,5 1,990"])
def test_words_that_look_like_others_are_classes(said, words):
    frame(words.split()).to_csv("t.csv", index=False)
    assert f"2 classes: {words.replace(' ', ' (100), ')} (100)" in "\n".join(said("t.csv"))


@pytest.mark.fault(
    "data",
    "several Excel sheets",
    "the first visible one is read, with a message; or use `--sheet`",
)
def test_the_sheet_that_is_read_is_said(said):
    with pd.ExcelWriter("t.xlsx") as book:
        frame().to_excel(book, sheet_name="reviews", index=False)
        frame(labels=("x", "y")).to_excel(book, sheet_name="notes", index=False)
    line, *others = said("t.xlsx")
    read = "only the first of the sheets reviews, notes is read"
    assert line == f"t.xlsx: {read}; choose another with --sheet"
    assert TWO in others
    assert "2 classes: x (100), y (100)" in said("t.xlsx", sheet="notes")


@pytest.mark.parametrize(
    ("counts", "metrics"),
    [
        ((52, 48), "accuracy"),
        ((70, 30), "matthews_correlation, f1_macro, accuracy"),
        ((40, 30, 30), "accuracy"),
        ((50, 30, 20), "matthews_correlation, f1_macro, accuracy"),
    ],
)
def test_accuracy_does_not_decide_if_one_class_is_most_of_the_rows(counts, metrics, said):
    labels = [word for word, count in zip("abc", counts, strict=False) for _ in range(count)]
    frame(labels=labels, rows=100).to_csv("t.csv", index=False)
    assert f"metrics: {metrics}" in said("t.csv")

"""Lines of `subtune init` about tables from public bug reports."""

from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.init.first_configuration import Request, init
from tests.helpers.peoples_tables import TABLES, frame, lines

TWO = "2 classes: bad (100), good (100)"
# The lines about each table, without "(a guess; …)", or the line that refuses it.
SAID = {
    "JSON lines called JSON": ["text: column 'text'", "label: column 'label'", TWO],
    "stars": ["label: column 'stars'", "5 classes: 1 (40), 2 (40), 3 (40), 4 (40), 5 (40)"],
    "category": ["label: column 'category'", TWO],
    "sentiment": ["text: column 'text'", "label: column 'Sentiment'", TWO],
    "the only column that can be the label": [
        "text: column 'text'",
        "not read: column 'id' (ids)",
        "not read: column 'created' (dates)",
        "label: column 'mood', the only one that can be it",
    ],
    "two columns that can be the label": [
        "--label: missing, and of the columns of t.csv several may be the label (author, mood); exp"
    ],
    "capitals": [
        "t.csv: line 42: found the label 'false' (2 in all), and elsewhere 'False' (20); expected "
        "one spelling, or --merge-labels, which makes them one"
    ],
    "two rows without a label at the end": [
        "t.csv: 2 of 200 rows left out, without a label: line 200, line 201",
        "2 classes: x (99), y (99)",
    ],
    "many rows without a label": [
        "t.csv: line 5: found no text or number in column 'label', expected a label in every row"
    ],
    "Excel's CSV": ["text: column 'text'", "2 classes: bad (20), good (20)"],
    "titles with ids and dates": [
        "text: column 'title'",
        "not read: column 'imdb' (ids)",
        "not read: column 'when' (dates)",
        "label: column 'genre', the only one that can be it",
    ],
    "pairs": [
        "pairs of texts: columns 'sentence1' and 'sentence2'",
        "not read: column 'pairID' (ids)",
        "label: column 'gold_label'",
    ],
    "95:5": [
        "2 classes: ham (190), spam (10)",
        "always answering ham is right in 95.0% of the rows",
        "metrics: matthews_correlation, f1_macro, accuracy",
    ],
    "scores": ["label: column 'score'", "regression: numbers from 0 to 4.875"],
    "the index of pandas": ["text: column 'text'", "not read: column '' (ids)", TWO],
    "lists of labels": [
        "label: column 'labels'",
        "2 labels, any number of them: insult (100), toxic (100)",
        "metrics: f1_micro, f1_macro, accuracy",
    ],
    "labels as columns": [
        "label: columns 'insult', 'toxic' of 0 and 1",
        "2 labels, any number of them: insult (150), toxic (100)",
    ],
}


def said(path: Path, **options) -> list[str]:
    """The lines of `subtune init` before the model's line, or the error."""
    found = []
    try:
        for line in init(Request(path, to=Path("out.yaml"), **options)):
            if line.startswith("model: "):
                break
            found.append(line)
    except SubtuneError as error:
        assert "\n" not in str(error)
        found = [str(error)]
    assert not Path("out.yaml").exists()
    return found


@pytest.mark.parametrize("name", SAID)
def test_a_table_of_a_bug_report_is_read_or_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, write = TABLES[name]
    write(Path(file))
    found = said(Path(file))
    for line in SAID[name]:
        assert any(of.startswith(line) for of in found), found


def test_labels_that_differ_in_capitals_are_one_if_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(lines(("False", "TRUE"), last="a,false \nb,true\n"))
    found = said(Path("t.csv"), merge_labels=True)
    assert "2 classes: False (21), TRUE (21)" in found


def test_the_sheet_that_is_read_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import pandas as pd

    with pd.ExcelWriter("t.xlsx") as book:
        frame().to_excel(book, sheet_name="reviews", index=False)
        frame(labels=("x", "y")).to_excel(book, sheet_name="notes", index=False)
    assert said(Path("t.xlsx"))[0] == (
        "t.xlsx: sheet 'reviews' of reviews, notes (the first; --sheet names another)"
    )
    assert "2 classes: x (100), y (100)" in said(Path("t.xlsx"), sheet="notes")


@pytest.mark.parametrize(
    ("counts", "metrics"),
    [
        ((52, 48), "accuracy"),
        ((70, 30), "matthews_correlation, f1_macro, accuracy"),
        ((40, 30, 30), "accuracy"),
        ((50, 30, 20), "matthews_correlation, f1_macro, accuracy"),
    ],
)
def test_accuracy_does_not_decide_if_one_class_is_most_of_the_rows(
    counts, metrics, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    labels = [word for word, count in zip("abc", counts, strict=False) for _ in range(count)]
    frame(labels=labels, rows=100).to_csv("t.csv", index=False)
    assert f"metrics: {metrics}" in said(Path("t.csv"))

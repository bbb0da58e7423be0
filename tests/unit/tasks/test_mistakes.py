"""The page on kinds of task has what is said of mistakes, word for word."""

import json
from pathlib import Path

import pytest

from subtune.config.schema import OwnTask
from subtune.core.errors import SubtuneError
from subtune.data import files
from tests.helpers.project import ROOT

PAGE = (ROOT / "docs" / "tasks.md").read_text()
SENTENCES = """Add other
two quantity
cups unit
of other
flour ingredient
. other
"""
LABELS = ["other", "quantity", "unit", "ingredient"]
IN_CONLL = {"kind": "tokens", "text": [1], "label": 2, "labels": LABELS}
IN_JSON_LINES = {"kind": "tokens", "text": ["words"], "labels": LABELS}
WEATHER = {"text": ["s"], "labels": ["other", "weather"], "metrics": ["accuracy"]}


def question(**changed) -> str:
    """A file with one question, with what is changed."""
    answers = [{"text": "seven", "answer_start": 20}]
    of_question = {"id": "bakery-1", "question": "When does the bakery open?", "answers": answers}
    paragraph = {"context": "The bakery opens at seven.", "qas": [of_question | changed]}
    return json.dumps({"data": [{"title": "Shops", "paragraphs": [paragraph]}]})


MISTAKES = [
    ("train.conll", IN_CONLL, SENTENCES.replace("quantity", "quantty")),
    ("train.conll", IN_CONLL, SENTENCES.replace("two", "half a")),
    ("train.conll", IN_CONLL | {"label": 3}, SENTENCES),
    ("train.conll", IN_CONLL, "Stir other\nwell other\n"),
    ("t.jsonl", IN_JSON_LINES, '{"words": ["Add", "salt"], "label": ["other"]}'),
    ("t.jsonl", IN_JSON_LINES, '{"words": "Add salt", "label": "other"}'),
    ("train.json", {"kind": "span"}, question(answers=[{"text": "seven", "answer_start": 21}])),
    ("train.json", {"kind": "span"}, question(answers=[])),
    ("train.json", {"kind": "span"}, question(is_impossible=True)),
    ("train.json", {"kind": "span"}, question(answers=[{"text": "seven"}])),
    ("train.json", {"kind": "span"}, question()[:60]),
    ("w.csv", WEATHER, "s,label\na,weather\nb,rain\n"),
    ("w.csv", {"text": ["s"], "metrics": ["spearmanr"]}, "s,label\na,weather\n"),
]


@pytest.mark.parametrize(("name", "task", "content"), MISTAKES)
def test_a_mistake_in_a_file_is_told_as_the_page_says(name, task, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    own = OwnTask(**task, files={"train": name, "validation": name}).task("mine")
    with pytest.raises(SubtuneError) as error:
        files.columns_of(own, {"train": (Path(name),)})
    assert f"`{error.value}`" in PAGE

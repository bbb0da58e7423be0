"""Rows of the hub's Parquet files. `tests/workflow/test_hub.py` downloads them."""

import datasets
import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read_parquet
from subtune.data.repositories import REPOSITORIES, is_on_hub, repository_of
from subtune.tasks import TASKS


def rows_of(task, path, cells):
    """Return the rows that are read from a Parquet file with these cells."""
    datasets.Dataset.from_dict(cells).to_parquet(path)
    return read_parquet(TASKS[task], REPOSITORIES[task], [str(path)], labelled=True)


def squad(answers):
    return {
        "id": ["a1"],
        "title": ["Oslo"],
        "context": ["Anna lives in Oslo."],
        "question": ["Where does Anna live?"],
        "answers": [answers],
    }


def test_a_question_has_its_context_and_all_answers_with_their_offsets(tmp_path):
    answers = {"text": ["Oslo", "in Oslo"], "answer_start": [14, 11]}
    rows = rows_of("squad", tmp_path / "validation.parquet", squad(answers))
    assert rows.to_dict() == {
        "idx": [0],
        "question": ["Where does Anna live?"],
        "context": ["Anna lives in Oslo."],
        "answers": [["Oslo", "in Oslo"]],
        "label": [[14, 11]],
    }


def test_a_sentence_has_its_words_and_the_numbers_of_their_tags(tmp_path):
    cells = {"tokens": [["She", "walks", "."]], "xpos": [["PRP", "VBZ", "."]]}
    rows = rows_of("ud_ewt", tmp_path / "0000.parquet", cells | {"head": [["2", "0", "2"]]})
    labels = TASKS["ud_ewt"].labels
    assert rows.to_dict() == {
        "idx": [0],
        "words": [["She", "walks", "."]],
        "label": [[labels.index(tag) for tag in ("PRP", "VBZ", ".")]],
    }


@pytest.mark.parametrize("no_tag", [None, "_"])
def test_a_contraction_is_read_as_its_parts(no_tag, tmp_path):
    cells = {"tokens": [["don't", "do", "n't"]], "xpos": [[no_tag, "VB", "RB"]]}
    cells |= {"head": [["None", "0", "1"]]}
    rows = rows_of("ud_ewt", tmp_path / "0000.parquet", cells)
    assert rows["words"][0] == ["do", "n't"]


def test_a_word_that_the_text_leaves_out_is_not_read(tmp_path):
    # "She reads, he books", whose second verb the treebank writes down as word 4.1.
    cells = {"tokens": [["She", "reads", ",", "he", "reads", "books"]]}
    cells |= {"xpos": [["PRP", "VBZ", ",", "PRP", "VBZ", "NNS"]]}
    cells |= {"head": [["2", "0", "2", "2", "None", "4"]]}
    rows = rows_of("ud_ewt", tmp_path / "0000.parquet", cells)
    assert rows["words"][0] == ["She", "reads", ",", "he", "books"]


@pytest.mark.parametrize(
    ("task", "split", "repository", "pattern"),
    [
        ("mrpc", "train", "nyu-mll/glue", "mrpc/train-*.parquet"),
        ("mnli", "diagnostic", "nyu-mll/glue", "ax/test-*.parquet"),
        ("squad", "validation", "rajpurkar/squad", "plain_text/validation-*.parquet"),
    ],
)
def test_every_task_has_its_place_on_the_hub(task, split, repository, pattern):
    place = repository_of(task)
    assert (place.name, place.pattern(task, split)) == (repository, pattern)


def test_the_penn_treebank_is_not_on_the_hub():
    assert [task for task in TASKS if not is_on_hub(task)] == ["ptb"]
    with pytest.raises(SubtuneError, match=r"not on the hub; name a directory .*directories\.ptb"):
        repository_of("ptb")

"""Rows of the hub's Parquet files. `tests/workflow/test_hub.py` downloads them."""

import datasets
import pytest

from subtune.data.load import read_parquet
from subtune.data.sources import OF_GLUE, REPOSITORIES, is_on_hub
from subtune.tasks import TASKS


def rows_of(task, path, cells):
    """Return the rows that are read from a Parquet file with these cells."""
    datasets.Dataset.from_dict(cells).to_parquet(path)
    return read_parquet(TASKS[task], REPOSITORIES[task], [str(path)], labelled=True)


def test_a_question_has_its_context_and_all_answers_with_their_offsets(tmp_path):
    texts = {"context": ["Anna lives in Oslo."], "question": ["Where does Anna live?"]}
    answers = {"text": ["Oslo", "in Oslo"], "answer_start": [14, 11]}
    cells = texts | {"id": ["a1"], "title": ["Oslo"], "answers": [answers]}
    rows = rows_of("squad", tmp_path / "validation.parquet", cells)
    read = {"idx": [0], "answers": [["Oslo", "in Oslo"]], "label": [[14, 11]]}
    assert rows.to_dict() == texts | read


def test_a_sentence_has_its_words_and_the_numbers_of_their_tags(tmp_path):
    cells = {"tokens": [["She", "walks", "."]], "xpos": [["PRP", "VBZ", "."]]}
    rows = rows_of("ud_ewt", tmp_path / "0000.parquet", cells | {"head": [["2", "0", "2"]]})
    labels = TASKS["ud_ewt"].labels
    assert rows.to_dict() == {
        "idx": [0],
        "words": [["She", "walks", "."]],
        "label": [[labels.index(tag) for tag in ("PRP", "VBZ", ".")]],
    }


@pytest.mark.parametrize(
    ("words", "tags", "heads", "read"),
    [
        # The parts of a contraction are read, not the contraction.
        (["don't", "do", "n't"], [None, "VB", "RB"], ["None", "0", "1"], ["do", "n't"]),
        (["don't", "do", "n't"], ["_", "VB", "RB"], ["None", "0", "1"], ["do", "n't"]),
        # The treebank adds a word that the text omits.
        (["She", "reads", "reads"], ["PRP", "VBZ", "VBZ"], ["2", "0", "None"], ["She", "reads"]),
    ],
)
def test_what_is_no_word_of_the_text_is_not_read(words, tags, heads, read, tmp_path):
    cells = {"tokens": [words], "xpos": [tags], "head": [heads]}
    assert rows_of("ud_ewt", tmp_path / "0000.parquet", cells)["words"][0] == read


def test_every_task_but_the_penn_treebank_has_its_place_on_the_hub():
    assert OF_GLUE.pattern("mrpc", "train") == "mrpc/train-*.parquet"
    assert OF_GLUE.pattern("mnli", "diagnostic") == "ax/test-*.parquet"
    assert REPOSITORIES["squad"].pattern("squad", "train") == "plain_text/train-*.parquet"
    assert REPOSITORIES["ud_ewt"].pattern("ud_ewt", "train") == "en_ewt/train/*.parquet"
    assert [task for task in TASKS if not is_on_hub(task)] == ["ptb"]

"""Sentences in JSON lines; what rows of texts and numbers are is with a user's own files."""

import json

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks.formats import json_lines


def written(directory, content: str | bytes):
    path = directory / "train.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


GOOD = '{"words": ["A", "dog"], "tags": ["DT", "NN"]}\n'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('"A dog"', "words: found the text 'A dog', expected a list"),
        ("null", "words: found null, expected a list"),
        ('{"0": "A"}', "words: found an object, expected a list"),
        ("[]", "words: found an empty list, expected at least one value"),
        ('["A", 1.5]', "words[1]: found 1.5, expected text"),
        ('["A", NaN]', "words[1]: found null, expected text"),
        ('["A", ["dog"]]', "words[1]: found a list, expected text"),
        ('["A", "\\n"]', "words[1]: found '\\n', expected text"),
        ('["\\u0000"]', "words[0]: found '\\x00', expected text"),
        ('["\\ud83d"]', "words[0]: found '\\ud83d', expected text"),
    ],
)
def test_anything_but_a_list_of_texts_is_refused_with_its_line(tmp_path, words, message):
    path = written(tmp_path, GOOD + '{"words": ' + words + ', "tags": ["DT", "NN"]}\n')
    with pytest.raises(SubtuneError) as error:
        list(json_lines.sentences(path, ["words", "tags"]))
    assert str(error.value) == f"{path}: line 2: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found no sentences, expected at least one"),
        ("\n \n", "found no sentences, expected at least one"),
        (
            GOOD + '\n{"words": ["A"], "tag": ["DT"]}\n',
            "line 3: no such column: found 'tags', expected one of words, tag "
            "(did you mean 'tag'?)",
        ),
        (
            '{"words": ["A"], "tags": ["DT"], "words": ["The"]}\n',
            "not a readable .jsonl file: line 1: found 'words' twice, expected it once",
        ),
        (
            GOOD + GOOD[:-3],
            "not a readable .jsonl file: line 2: Expecting ',' delimiter in column 44, expected "
            "an object",
        ),
        (
            GOOD.encode() + '{"words": ["café"]}'.encode("latin-1"),
            "line 2: found the byte 0xe9, which is not UTF-8, expected a file in UTF-8",
        ),
        (GOOD + '["A"]\n', "not a readable .jsonl file: line 2: found a list, expected an object"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(json_lines.sentences(path, ["words", "tags"]))
    assert str(error.value) == f"{path}: {message}"


def test_what_a_file_says_is_what_is_read(tmp_path):
    """Also with a byte-order mark, blank lines, numbers as texts, and columns that no one reads."""
    rows = [
        {"words": ["A", "3", "#"], "tags": ["DT", "CD", "#"]},
        {"words": ["A b"], "tags": ["X"]},
    ]
    content = "\ufeff" + "\n\n".join(json.dumps(row | {"id": 7}) for row in rows)
    assert list(json_lines.sentences(written(tmp_path, content), ["words", "tags"])) == [
        ("line 1", rows[0]),
        ("line 3", rows[1]),
    ]


def test_that_words_and_tags_are_as_many_is_not_the_formats_to_say(tmp_path):
    path = written(tmp_path, '{"words": ["A", "dog"], "tags": ["DT"]}')
    ((_, row),) = json_lines.sentences(path, ["words", "tags"])
    assert row == {"words": ["A", "dog"], "tags": ["DT"]}

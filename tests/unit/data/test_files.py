"""A user's own files: what is read as it stands, and what is refused, with its line."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.data import files
from subtune.data.load import load
from subtune.data.sizes import size_of
from subtune.selections.specs import DataSpec
from subtune.tasks import Task

MOOD = Task(name="mood", title="Mood", text=("text",), labels=("sad", "happy"), metrics=("f1",))
PAIR = MOOD.model_copy(update={"text": ("text", "other")})
GRADE = Task(name="grade", title="Grade", text=("text",), metrics=("spearmanr",))
GOOD_ROWS = 'text,label\n"a, b",happy\nc,sad\n'


def written(tmp_path, train: str | bytes, ending="csv", validation=GOOD_ROWS) -> dict[str, str]:
    """Paths of a task's files with these contents."""
    paths = {"train": tmp_path / f"train.{ending}", "validation": tmp_path / "validation.csv"}
    paths["train"].write_bytes(train if isinstance(train, bytes) else train.encode())
    paths["validation"].write_text(validation)
    return {split: str(path) for split, path in paths.items()}


def train_rows(tmp_path, train, ending="csv", task=MOOD, **others) -> list[tuple]:
    """Texts and label of every row of a training file."""
    columns = files.columns_of(
        task, files.own_paths(written(tmp_path, train, ending, **others), task)
    )["train"]
    return list(zip(*(column for name, column in columns.items() if name != "idx"), strict=True))


# Contents of the training file, its ending, and what is said of it after its name.
REFUSED = [
    ("label,text\nsad,x\nhappy,car, dog\n", "csv", "line 3: found 3 cells, expected 2 (label, tex"),
    (
        "text,label,by\nx,sad,me\ny,happy\n",
        "csv",
        "line 3: found 2 cells, expected 3 (text, label,",
    ),
    ("text,label\nx,sad\n , \n", "csv", "line 3: found no text, expected some"),
    ("text,label\nx,sad\n,happy\n", "csv", "line 3: found no text, expected some to learn from"),
    ("text,label\nx\0,sad\n", "csv", "line 2: found '\\x00', expected text"),
    ("text,label,text\nx,sad,y\n", "csv", "line 1: found column 'text' twice, expected it once"),
    ("text,label\nx,hapy\n", "csv", "line 2: label: found 'hapy', expected one of sad, happy, 0"),
    ('text,label\n"x\ny",hapy\n', "csv", "line 2: label: found 'hapy', expected one of sad, happ"),
    ("", "csv", "found no rows, expected at least one"),
    ("text,label\nx,sad\ny,sad\n", "csv", "found the label 'sad' in every row, expected at least"),
    (
        'text,label\n"x,sad\ny,happy\nz",sad\nw,sad\n',
        "csv",
        "line 2: found a '\"' that nothing closes before line 4, expected '\"\"\"' where a quote",
    ),
    (
        'text\tlabel\n"x" said y\tsad\n',
        "tsv",
        "not a readable .tsv file: line 2: '\\t' expected after '\"'; a cell that begins with '\"'",
    ),
    (
        b"text,label\ncaf\xe9,sad\n",
        "csv",
        "line 2: found the byte 0xe9, which is not UTF-8",
    ),
    (
        '{"text": "x", "label": "sad"}\n{"text": null, "label": "sad"}\n',
        "jsonl",
        "line 2: column 'text': found null, expected text or a number",
    ),
    ('{"text": {"a": [1]}, "label": "sad"}\n', "jsonl", "line 1: column 'text': found an object, "),
    (
        '{"text": "x", "label": "sad"}\n\n{"txt": "x", "label": "sad"}\n',
        "jsonl",
        "line 3: no such column: found 'text', expected one of txt, label (did you mean 'txt'?)",
    ),
    ('{"text": "\\ud83d", "label": 0}\n', "jsonl", "line 1: found '\\ud83d', expected text"),
    ('{"text": "x"\n', "jsonl", "not a readable .jsonl file: line 1: Expecting ',' delimiter"),
    (
        '[["text", "x"]]\n',
        "jsonl",
        "not a readable .jsonl file: line 1: found a list, expected an obj",
    ),
]


@pytest.mark.parametrize(("content", "ending", "message"), REFUSED)
def test_a_file_that_would_be_misread_is_refused_with_its_line(tmp_path, content, ending, message):
    paths = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        files.columns_of(MOOD, files.own_paths(paths, MOOD))
    assert str(error.value).startswith(f"{paths['train']}: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "ending", "rows"),
    [
        # Line ends within quotes, commas too, where no line is a row by itself.
        ('text,label\n"a, b\nc",1\n"d, sad\ne",0\n', "csv", [("a, b\nc", 1), ("d, sad\ne", 0)]),
        ('label,text\nhappy,"a\nb, c"\nsad,d\n', "csv", [("a\nb, c", 1), ("d", 0)]),
        ('text,label\n"a ""b"" c",happy\nd "e",sad\n', "csv", [('a "b" c', 1), ('d "e"', 0)]),
        ('text\tlabel\n"a\tb"\thappy\nc "d"\tsad\n', "tsv", [("a\tb", 1), ('c "d"', 0)]),
        # As Windows writes it, with a byte-order mark, and with an empty line at its end.
        ("\ufefftext,label\r\na,happy\r\nb,sad\r\n\r\n", "csv", [("a", 1), ("b", 0)]),
        ("text,label\na, happy \nb,0\n", "csv", [("a", 1), ("b", 0)]),
        # Columns that no one reads may be twice, or of any kind.
        ("text,label,,\na,happy,,\nb,sad,,\n", "csv", [("a", 1), ("b", 0)]),
        (
            '{"text": "a", "label": 1, "of": {"x": null}}\n{"text": 2.50, "label": "sad"}\n',
            "jsonl",
            [("a", 1), ("2.50", 0)],
        ),
    ],
)
def test_what_a_file_says_is_what_is_trained_on(tmp_path, content, ending, rows):
    assert train_rows(tmp_path, content, ending) == rows


def test_one_text_of_a_pair_may_be_empty(tmp_path):
    pairs = "text,other,label\na,,sad\n,b,happy\n"
    rows = train_rows(tmp_path, pairs, task=PAIR, validation=pairs)
    assert rows == [("a", "", 0), ("", "b", 1)]


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e39", "1e19", "NaN"])
def test_a_score_that_no_training_survives_is_refused(tmp_path, score):
    text = f"text,label\na,1\nb,{score}\n"
    with pytest.raises(SubtuneError, match=f"line 3: label: found '{score}', expected a number be"):
        train_rows(tmp_path, text, task=GRADE, validation="text,label\na,1\nb,2\n")


@pytest.mark.parametrize("same", ["text,label\na,1\nb,1.0\n", "text,label\na,1\n"])
def test_scores_that_are_all_the_same_cannot_be_judged_by_a_correlation(tmp_path, same):
    good = "text,label\na,1\nb,2\n"
    with pytest.raises(SubtuneError, match=r"validation\.csv: found the label 1\.0 in every row"):
        train_rows(tmp_path, good, task=GRADE, validation=same)
    # Other metrics have a value where one class is all there is.
    assert train_rows(tmp_path, GOOD_ROWS, validation="text,label\na,sad\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\n", "found no rows, expected at least one"),
        ("text,label\nx,neutral\n", "line 2: label: found 'neutral', expected one of sad, happy"),
    ],
)
def test_what_is_wrong_in_a_dev_file_is_told_of_that_file(tmp_path, content, message):
    with pytest.raises(SubtuneError, match=rf"validation\.csv: {message}"):
        train_rows(tmp_path, GOOD_ROWS, validation=content)


def test_what_is_wrong_in_a_users_file_is_known_when_work_is_planned(tmp_path):
    paths = written(tmp_path, "label,text\nsad,x\nhappy,car, dog\n")
    with pytest.raises(SubtuneError, match="line 3: found 3 cells, expected 2"):
        size_of(MOOD, "files", paths)
    with pytest.raises(SubtuneError, match="line 3: found 3 cells, expected 2"):
        load(DataSpec(task=MOOD, source="files", version="1"), paths=paths)


def test_a_test_file_needs_no_labels(tmp_path):
    paths = written(tmp_path, GOOD_ROWS)
    (tmp_path / "test.csv").write_text('text\n"one\ntwo"\nthree\n')
    paths |= {"test": str(tmp_path / "test.csv")}
    columns = files.columns_of(MOOD, files.own_paths(paths, MOOD))["test"]
    assert columns == {"idx": [0, 1], "text_a": ["one\ntwo", "three"], "label": [-1, -1]}

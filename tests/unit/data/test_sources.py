"""Where the rows of a task are: mini tasks, files and the hub."""

import json

import datasets
import pytest

from subtune.core.errors import SubtuneError
from subtune.data import sources
from subtune.data.load import load_rows, read_hub_split
from subtune.data.sources import (
    OF_GLUE,
    OFFICIAL_NAMES,
    REPOSITORIES,
    files_version,
    require_unchanged_files,
)
from subtune.data.table_files import read_rows
from subtune.runs.spec import DataSpec
from subtune.tasks import TASKS, Task
from tests.helpers.messages import refused


def rows_of(task, path, cells):
    """Return the rows that are read from a Parquet file with these cells."""
    datasets.Dataset.from_dict(cells).to_parquet(path)
    return read_hub_split(TASKS[task], REPOSITORIES[task], [str(path)], labelled=True)


def test_a_question_has_its_context_and_all_answers_with_their_offsets(tmp_path):
    texts = {"context": ["Anna lives in Oslo."], "question": ["Where does Anna live?"]}
    answers = {"text": ["Oslo", "in Oslo"], "answer_start": [14, 11]}
    cells = texts | {"id": ["a1"], "title": ["Oslo"], "answers": [answers]}
    rows = rows_of("squad", tmp_path / "validation.parquet", cells)
    read = {"idx": [0], "answers": [["Oslo", "in Oslo"]], "label": [[14, 11]]}
    assert rows.to_dict() == texts | read | {"place": ["row 1"], "set": [0]}


def test_a_sentence_has_its_words_and_the_numbers_of_their_tags(tmp_path):
    cells = {"tokens": [["She", "walks", "."]], "xpos": [["PRP", "VBZ", "."]]}
    rows = rows_of("ud_ewt", tmp_path / "0000.parquet", cells | {"head": [["2", "0", "2"]]})
    labels = TASKS["ud_ewt"].labels
    assert rows.to_dict() == {
        "idx": [0],
        "place": ["row 1"],
        "words": [["She", "walks", "."]],
        "label": [[labels.index(tag) for tag in ("PRP", "VBZ", ".")]],
        "set": [0],
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
    assert {*OFFICIAL_NAMES} - {*REPOSITORIES} == {"ptb"}


MOOD = Task(name="mood", title="Mood", text=("text",), labels=("sad", "happy"), metrics=("f1",))
PAIR = MOOD.model_copy(update={"text": ("text", "other")})
GRADE = Task(name="grade", title="Grade", text=("text",), metrics=("spearmanr",))
LONG = "a" * 150_000
GOOD_ROWS = 'text,label\n"a, b",happy\nc,sad\n'


def written(tmp_path, train: str | bytes, ending="csv", validation=GOOD_ROWS) -> dict[str, str]:
    """Paths of a task's files with these contents."""
    paths = {"train": tmp_path / f"train.{ending}", "validation": tmp_path / "validation.csv"}
    paths["train"].write_bytes(train if isinstance(train, bytes) else train.encode())
    paths["validation"].write_text(validation)
    return {split: str(path) for split, path in paths.items()}


def train_rows(tmp_path, train, ending="csv", task=MOOD, **others) -> list[tuple]:
    """Texts and label of every row of a training file."""
    paths = sources.user_task_files(written(tmp_path, train, ending, **others), task)
    columns = sources.read_columns(task, paths)["train"]
    read = (column for name, column in columns.items() if name not in ("idx", "place", "set"))
    return list(zip(*read, strict=True))


# The training file's contents by its ending, and the start of the message after its name.
CSV = [
    (
        "label,text\nsad,x\nhappy,car, dog\n",
        "line 3: found 3 cells, expected 2 (label, text); put",
    ),
    ("text,label,by\nx,sad,me\ny,happy\n", "line 3: found 2 cells, expected 3 (text, label, by)"),
    ("text,label\nx,sad\n , \n", "line 3: the text is empty; fill it in"),
    ("text,label\nx\0,sad\n", "line 2: found '\\x00', expected text"),
    ("text,label\nx,sad\0\n", "line 2: found '\\x00', expected text"),
    ("text,label,text\nx,sad,y\n", "line 1: found column 'text' twice"),
    ('text,label\n"x\ny",hapy\n', "line 2: label: found 'hapy', expected one of sad, happy, 0, 1"),
    ("", "found no rows, expected at least one"),
    ("text,label\nx,sad\ny,sad\n", "found the label 'sad' in every row, expected at least two"),
    (
        'text,label\n"x,sad\ny,happy\nz",sad\nw,sad\n',
        'line 2: the quotation mark (") at the start of a cell is not closed by line 4; if',
    ),
    ("sep=;\r\ntext;label\r\nx;sad\r\ny;hapy\r\n", "line 4: label: found 'hapy', expected one of"),
    # The quotation mark's cell has more letters than the csv module takes by default.
    (
        'text,label\nx,sad\n"y,happy\n' + "z,sad\n" * 30_000,
        "not a readable .csv file: line 3: unexp",
    ),
    ('"text" x,label\n', "not a readable .csv file: line 1: ',' expected after"),
    (b"text,label\ncaf\xe9,sad\n", "line 2: cannot decode the byte 0xe9, expected a file in UTF-8"),
]
TSV = [
    (
        'text\tlabel\n"x" said y\tsad\n',
        "not a readable .tsv file: line 2: '\\t' expected after '\"'; a cell that begins with '\"'",
    )
]
ROW = '{"text": "x", "label": "sad"}\n'
JSONL = [
    (f'{ROW}{{"text": null, "label": 0}}\n', "line 2: the text is empty; fill it in"),
    (
        f'{ROW}{{"text": ["x"], "label": 0}}\n',
        "line 2: column 'text': found [\"x\"], expected text",
    ),
    # A program may leave out an empty cell.
    (
        f'{ROW}\n{{"txt": "y", "label": "sad"}}\n',
        "line 3: the text is empty; fill it in",
    ),
    ('{"txt": "y", "label": "sad"}\n', "line 1: no column 'text', expected one of txt"),
    ('{"text": "\\ud83d", "label": 0}\n', "line 1: found '\\ud83d', expected text"),
    ('{"text": "x"\n', "not a readable .jsonl file: line 1: Expecting ',' delimiter in column 13"),
    ("[" * 20_000, "not a readable .jsonl file: line 1: too deeply nested"),
]
REFUSED = [
    (ending, *case)
    for ending, cases in {"csv": CSV, "tsv": TSV, "jsonl": JSONL}.items()
    for case in cases
]


def name_of(value) -> str:
    """Return a short name of a test's argument."""
    return str(value)[:60]


@pytest.mark.parametrize(("ending", "content", "message"), REFUSED, ids=name_of)
@pytest.mark.fault(
    "data",
    "short rows, empty texts, wrong separators, quotation marks or labels, NUL, a second header, "
    "repeated columns",
    "rejected with the line number",
)
def test_a_file_that_would_be_misread_is_refused_with_its_line(tmp_path, content, ending, message):
    paths = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        sources.read_columns(MOOD, sources.user_task_files(paths, MOOD))
    assert str(error.value).startswith(f"{paths['train']}: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "ending", "rows"),
    [
        # Line ends and commas within quotes; no line is a row by itself.
        ('text,label\n"a, b\nc",1\n"d, sad\ne",0\n', "csv", [("a, b\nc", 1), ("d, sad\ne", 0)]),
        ('label,text\nhappy,"a\nb, c"\nsad,d\n', "csv", [("a\nb, c", 1), ("d", 0)]),
        ('text,label\n"a ""b"" c",happy\nd "e",sad\n', "csv", [('a "b" c', 1), ('d "e"', 0)]),
        ('text\tlabel\n"a\tb"\thappy\nc "d"\tsad\n', "tsv", [("a\tb", 1), ('c "d"', 0)]),
        # Windows writes a byte-order mark; an empty line ends the file.
        ("\ufefftext,label\r\na,happy\r\nb,sad\r\n\r\n", "csv", [("a", 1), ("b", 0)]),
        ("text,label\na, happy \nb,0\n", "csv", [("a", 1), ("b", 0)]),
        (f"text,label\n{LONG},happy\nb,sad\n", "csv", [(LONG, 1), ("b", 0)]),
        # Excel's first line may name the delimiter.
        ("\ufeffsep=;\r\ntext;label\r\na, c;happy\r\nb;sad\r\n", "csv", [("a, c", 1), ("b", 0)]),
        ("sep=,\ntext,label\na,happy\nb,sad\n", "csv", [("a", 1), ("b", 0)]),
        ('"sep=;"\ntext;label\na;happy\nb;sad\n', "tsv", [("a", 1), ("b", 0)]),
        ("sep=\t\ntext\tlabel\na\thappy\nb\tsad\n".encode("utf-16"), "csv", [("a", 1), ("b", 0)]),
        # Unused columns may be repeated, and may have any contents.
        ("text,label,,\na,happy,,\nb,sad,,\n", "csv", [("a", 1), ("b", 0)]),
        (
            '{"text": "a", "label": 1, "of": {"x": null}}\n{"text": 2.50, "label": "sad"}\n',
            "jsonl",
            [("a", 1), ("2.50", 0)],
        ),
    ],
    ids=name_of,
)
@pytest.mark.fault(
    "data", "files from Windows, line breaks in quotes, huge cells, `sep=;`", "read correctly"
)
def test_what_a_file_says_is_what_is_trained_on(tmp_path, content, ending, rows):
    assert train_rows(tmp_path, content, ending) == rows


def test_rows_that_were_read_are_not_read_again(tmp_path):
    paths = sources.user_task_files(written(tmp_path, 'text,label\n"a\nb",happy\nc,\n'), MOOD)
    tables = {split: [*read_rows(path)] for split, path in paths.items()}
    tables["train"] += [("line 9", {"text": "d", "label": "sad"})] * 150
    found = sources.read_columns(MOOD, paths, tables=tables)["train"]
    assert found["text_a"] == ["a\nb", *"d" * 150]
    # Rows that may lack a quotation mark are judged when the labels are known.
    unclosed = written(tmp_path, 'text,label\n"x,sad\ny,happy\nz",sad\n')
    paths = sources.user_task_files(unclosed, MOOD)
    tables = {split: [*read_rows(path)] for split, path in paths.items()}
    with refused(f"{paths['train']}: line 2: ", "is not closed by line 4"):
        sources.read_columns(MOOD, paths, tables=tables)


@pytest.mark.parametrize("empty", [', "other": null', ', "other": ""', ""])
def test_an_empty_text_of_a_pair_is_the_same_in_json_as_in_csv(tmp_path, empty):
    rows = f'{{"text": "a", "label": "sad"{empty}}}\n{{"text": "", "other": "b", "label": 1}}\n'
    pairs = "text,other,label\na,,sad\n,b,happy\n"
    paths = written(tmp_path, rows, "jsonl", validation=pairs)
    columns = sources.read_columns(PAIR, sources.user_task_files(paths, PAIR))
    places = columns["train"].pop("place"), columns["validation"].pop("place")
    assert places == (["line 1", "line 2"], ["line 2", "line 3"])
    assert columns["train"] == columns["validation"]


def test_one_text_of_a_pair_may_be_empty_and_a_test_file_needs_no_labels(tmp_path):
    pairs = "text,other,label\na,,sad\n,b,happy\n"
    paths = written(tmp_path, pairs, validation=pairs) | {"test": str(tmp_path / "test.csv")}
    (tmp_path / "test.csv").write_text('text,other\n"one\ntwo",\n')
    columns = sources.read_columns(PAIR, sources.user_task_files(paths, PAIR))
    texts = {"text_a": ["a", ""], "text_b": ["", "b"]}
    about = {"idx": [0, 1], "place": ["line 2", "line 3"], "set": [0, 1]}
    assert columns["train"] == about | texts | {"label": [0, 1]}
    texts = {"text_a": ["one\ntwo"], "text_b": [""], "label": [-1]}
    assert columns["test"] == {"idx": [0], "place": ["line 2"], "set": [0]} | texts


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e39", "1e19", "NaN"])
def test_a_score_that_no_training_survives_is_refused(tmp_path, score):
    text = f"text,label\na,1\nb,{score}\n"
    with refused(f"{tmp_path / 'train.csv'}: line 3: label: ", f"found '{score}'"):
        train_rows(tmp_path, text, task=GRADE, validation="text,label\na,1\nb,2\n")


def test_decimal_commas_are_read_where_they_cannot_separate_thousands(tmp_path):
    rows = "text;label\na;-2,5\nb;0,125\nc;1234,567\nd;3\n"
    read = train_rows(tmp_path, rows, task=GRADE, validation=rows)
    assert [label for _, label in read] == [-2.5, 0.125, 1234.567, 3.0]
    with refused(f"{tmp_path / 'train.csv'}: line 6: label: ", "found '1,234'"):
        train_rows(tmp_path, f"{rows}e;1,234\n", task=GRADE)


@pytest.mark.parametrize("same", ["text,label\na,1\nb,1.0\n", "text,label\na,1\n"])
@pytest.mark.fault("data", "equal labels for a correlation", "rejected")
def test_scores_that_are_all_the_same_cannot_be_judged_by_a_correlation(tmp_path, same):
    good = "text,label\na,1\nb,2\n"
    with refused(f"{tmp_path / 'validation.csv'}: ", "found the label 1.0 in every row"):
        train_rows(tmp_path, good, task=GRADE, validation=same)
    # Other metrics have a value even if there is only one class.
    assert train_rows(tmp_path, GOOD_ROWS, validation="text,label\na,sad\n")


@pytest.mark.parametrize(
    ("row", "message"),
    [("", "found no rows, expected"), ("x,neutral\n", "line 2: label: found 'n")],
)
def test_what_is_wrong_in_a_dev_file_is_told_of_that_file(tmp_path, row, message):
    with pytest.raises(SubtuneError, match=rf"validation\.csv: {message}"):
        train_rows(tmp_path, GOOD_ROWS, validation=f"text,label\n{row}")


def test_a_file_that_changed_after_planning_is_refused(tmp_path):
    paths = written(tmp_path, GOOD_ROWS)
    version = files_version(sources.user_task_files(paths, MOOD))
    spec = DataSpec(task=MOOD, source="files", version=version)
    found = sources.user_task_files(paths, MOOD)
    require_unchanged_files(spec, found)
    (tmp_path / "train.csv").write_text(f"{GOOD_ROWS}more,sad\n")
    with refused(f"{', '.join(paths.values())}: ", "changed since the plan was made"):
        require_unchanged_files(spec, found)
    (tmp_path / "train.csv").unlink()
    with pytest.raises(SubtuneError, match=r"files\.train: no such file"):
        sources.user_task_files(paths, MOOD)


def test_a_file_that_cannot_be_read_is_named_when_work_is_planned(tmp_path):
    with refused(f"{tmp_path}: ", "is a directory"):
        files_version({"train": tmp_path})


CONLLU = """\
# sent_id = {split}-1
1\tShe\tshe\tPRON\tPRP\t_\t0\troot\t_\t_
2\twalks\twalk\tVERB\tVBZ\t_\t1\tdep\t_\t_

"""


def write_ud_ewt(directory, splits=("train", "dev", "test")):
    for split in splits:
        text = CONLLU.format(split=split)
        (directory / f"en_ewt-ud-{split}.conllu").write_text(text)


def write_squad(directory):
    answers = [{"text": "Oslo", "answer_start": 14}]
    question = {"id": "1", "question": "Where does Anna live?", "answers": answers}
    paragraph = {"context": "Anna lives in Oslo.", "qas": [question]}
    for split in ("train", "dev"):
        text = json.dumps({"version": "1.1", "data": [{"paragraphs": [paragraph]}]})
        (directory / f"{split}-v1.1.json").write_text(text)


def loaded(name, directory):
    spec = DataSpec(task=TASKS[name], source="files", version="1")
    return load_rows(spec, sources.official_files(str(directory), TASKS[name]))


def test_the_english_web_treebank_and_squad_are_read_from_their_files(tmp_path):
    write_ud_ewt(tmp_path)
    rows = loaded("ud_ewt", tmp_path)
    assert set(rows) == {"train", "validation"}
    assert rows["validation"]["words"][0] == ["She", "walks"]
    labels = TASKS["ud_ewt"].labels
    assert rows["train"]["label"][0] == [labels.index("PRP"), labels.index("VBZ")]
    write_squad(tmp_path)
    assert loaded("squad", tmp_path)["validation"]["answers"][0] == ["Oslo"]


def test_test_files_may_be_absent_and_others_may_not(tmp_path):
    write_ud_ewt(tmp_path, splits=("train", "dev"))
    task = TASKS["ud_ewt"]
    assert [*sources.official_files(str(tmp_path), task)] == ["train", "validation"]
    (tmp_path / "en_ewt-ud-dev.conllu").unlink()
    with pytest.raises(SubtuneError, match=r"directories\.ud_ewt: .*ud-dev\.conllu is missing"):
        sources.official_files(str(tmp_path), task)
    with pytest.raises(SubtuneError, match=r"directories.ptb: found no directory .*nowhere'"):
        sources.official_files(str(tmp_path / "nowhere"), TASKS["ptb"])

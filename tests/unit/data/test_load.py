"""Rows of every source with the same columns, and their token ids."""

import re
import shutil
from collections import Counter

import datasets
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from subtune.core.errors import SubtuneError
from subtune.data import sources
from subtune.data.corpora import read_glue_rows
from subtune.data.load import load_rows, read_splits, tokenize
from subtune.data.sources import MINI_TASKS, mini_rows, mini_version
from subtune.models.model_files import TOKENIZER
from subtune.runs.spec import DataSpec
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from tests.helpers import examples

MINI_VERSIONS = {
    "qnli": "98e557953f68f2b6",
    "sst2": "ac5610c2fb86e9d8",
    "mnli": "1126ffa692e5f6bc",
    "cola": "58bd2dd96cd9862a",
    "mrpc": "6acd1069a09cb6ac",
    "stsb": "73d2ad0790d9147b",
    "rte": "eb0df6f3a7a2c334",
    "qqp": "f7d507b1316cab32",
    "ud_ewt": "1d1b1d14406c7b96",
    "squad": "9d5666f4a6e8a5cf",
}


def spec(task: Task, source: str) -> DataSpec:
    return DataSpec(
        task=task, source=source, version="1", splits=(*task.labelled_splits, *task.test)
    )


MOOD = Task(name="mood", title="M", text=("text",), labels=("sad", "happy"), metrics=("accuracy",))


@pytest.mark.parametrize(("family", "ends"), [("bart", 1), ("llama", 2)])
def test_a_special_tokens_name_in_a_text_is_text_to_a_model_that_reads_the_only_end(
    family, ends, directory_of, tmp_path
):
    directory = shutil.copytree(directory_of(family), tmp_path / family)
    tokenizer = Tokenizer.from_file(str(directory / TOKENIZER))
    tokenizer.add_special_tokens(["[SEP]"])
    tokenizer.save(str(directory / TOKENIZER))
    rows = examples.rows_of(TASKS["sst2"])
    rows["train"] = rows["train"].map(lambda row: row | {"text_a": "a good[SEP] film"})
    [ids, *_] = tokenize(TASKS["sst2"], rows, directory, 24)["train"]["input_ids"]
    assert ids.count(tokenizer.token_to_id("[SEP]")) == ends


def in_thai(cell):
    """The texts of a cell with other letters."""
    if isinstance(cell, list):
        return [*map(in_thai, cell)]
    return re.sub("[a-z]", "ด", cell) if isinstance(cell, str) else cell


@pytest.mark.parametrize("task", ["sst2", "ud_ewt", "squad"])
def test_many_unknown_tokens_are_said_and_only_unknown_ones_are_refused(task, tiny_bert, capsys):
    rows = examples.rows_of(TASKS[task])
    known = rows["train"]
    foreign = known.map(lambda row: {name: in_thai(cell) for name, cell in row.items()})
    rows["train"] = datasets.concatenate_datasets([known, foreign])
    tokenize(TASKS[task], rows, tiny_bert, 24)
    assert "% of the tokens are unknown to the model" in capsys.readouterr().out
    rows["train"] = foreign
    with pytest.raises(SubtuneError, match="tiny-bert: the tokenizer has no token for any word"):
        tokenize(TASKS[task], rows, tiny_bert, 24)


def test_a_task_without_test_files_has_no_rows_to_predict(glue_dir, tiny_bert, tmp_path):
    tests = DataSpec(task=TASKS["rte"], source="tsv", version="1", splits=())
    load_rows(tests).save_to_disk(tmp_path / "rows")
    tokens = tokenize(TASKS["rte"], datasets.load_from_disk(tmp_path / "rows"), tiny_bert, 24)
    tokens.save_to_disk(tmp_path / "tokens")
    assert dict(datasets.load_from_disk(tmp_path / "tokens")) == {}


def test_a_glue_file_that_is_missing_is_named(glue_dir):
    with pytest.raises(SubtuneError, match=r"QNLI/train\.tsv is missing, expected the file"):
        sources.official_files(str(glue_dir), TASKS["qnli"], "tsv")


def tsv_rows(directory, task, content):
    (directory / "train.tsv").write_bytes(content)
    rows = read_glue_rows(TASKS[task], directory / "train.tsv", labelled=True)
    return [row for _, row in rows]


@pytest.mark.parametrize(
    ("task", "content", "row"),
    [
        (
            "mrpc",
            b'\xef\xbb\xbfQuality\t#1 String\t#2 String\n1\t"He said\tShe said\r\n',
            {"label": "1", "sentence1": '"He said', "sentence2": "She said"},
        ),
        (
            "sst2",
            "sentence\tlabel\none\u2028two\x85three\t1\n".encode(),
            {"sentence": "one\u2028two\x85three", "label": "1"},
        ),
        (
            "cola",
            b"gj04\t0\t*\tHe go.\n",
            {"source": "gj04", "label": "0", "original_label": "*", "sentence": "He go."},
        ),
    ],
    ids=["a quote and a byte-order mark", "other ends of lines", "no header"],
)
def test_rows_are_what_stands_between_tabs_and_newlines(task, content, row, tmp_path):
    assert tsv_rows(tmp_path, task, content) == [row]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sentence\tlabel\ngood\t1\nbad\n", "line 3: found 1 columns, expected 2"),
        (b"sentence\tlabel\ncaf\xe9\t1\n", r"train\.tsv: line 2: .*expected a file in UTF-8"),
    ],
)
@pytest.mark.fault(
    "data", "broken GLUE, CoNLL-U, SQuAD or JSON lines", "rejected with the line number or question"
)
def test_a_broken_file_of_glue_is_named(content, message, tmp_path):
    with pytest.raises(SubtuneError, match=message):
        tsv_rows(tmp_path, "sst2", content)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({"train": "a.csv"}, r"tasks\.mood\.files: 'validation' is missing"),
        ({"train": "a.csv", "validation": "b.csv", "dev": "c.csv"}, "files: found 'dev', expected"),
        ({"train": "a.xls", "validation": "b"}, r"files\.train: a\.xls: extension: found '\.xls'"),
        ({"train": "a.csv", "validation": "b.csv"}, r"files\.train: no such file 'a\.csv'"),
    ],
)
def test_wrong_paths_of_a_users_task_give_one_line(paths, message):
    with pytest.raises(SubtuneError, match=message):
        sources.user_task_files(paths, MOOD)


@pytest.mark.parametrize("name", MINI_TASKS)
def test_a_mini_task_has_the_form_of_its_task_and_no_text_twice(name):
    task = TASKS[name]
    splits = mini_rows(name)
    assert set(sources.read_columns(task, {}, "builtin")) == {"train", *task.evaluation, *task.test}
    assert len(splits["train"]) >= 200
    assert all(len(splits[split]) >= 100 for split in task.evaluation)
    assert set(splits["train"][0]) == {*task.text, task.label}
    assert all(task.label not in row for split in task.test for row in splits[split])
    # No text occurs twice, and each story has one question.
    columns = task.text[1:] if name == "squad" else task.text
    rows = [row for split in splits.values() for row in split]
    assert len({str([row[column] for column in columns]) for row in rows}) == len(rows)
    if task.kind == "classification":
        counts = Counter(row["label"] for row in splits["train"])
        assert set(counts) == set(task.labels)
        assert max(counts.values()) < 0.7 * len(splits["train"])


def test_a_mini_task_is_the_same_on_every_machine():
    versions = {name: mini_version(name) for name in MINI_TASKS}
    assert versions == MINI_VERSIONS


@pytest.mark.parametrize("name", ["cola", "mrpc"])
def test_tokens_are_those_of_the_models_own_tokenizer(name, minilm):
    task = TASKS[name]
    rows = load_rows(spec(task, "builtin"))
    tokens = tokenize(task, rows, minilm, max_length=12)["train"]
    reference = AutoTokenizer.from_pretrained(minilm)
    texts = [rows["train"][column] for column in ("text_a", "text_b")[: len(task.text)]]
    expected = reference(*[list(text) for text in texts], truncation=True, max_length=12)
    assert tokens["input_ids"] == expected["input_ids"]
    assert tokens["token_type_ids"] == expected["token_type_ids"]
    assert max(map(len, tokens["input_ids"])) == 12
    whole = [*map(len, reference(*[list(text) for text in texts])["input_ids"])]
    assert list(tokens["whole_length"]) == whole
    share = sum(map(len, expected["input_ids"])) / sum(whole)
    assert Examples(tokens).share_read == pytest.approx(share) and share < 1


def test_of_a_text_of_100_000_letters_the_beginning_is_read(tiny_bert):
    row = {"text": "good " * 20_000, "label": "sad"}
    rows = examples.split_of(MOOD, [row])
    tokens = tokenize(MOOD, datasets.DatasetDict(train=rows), tiny_bert, 24)["train"]
    assert len(tokens["input_ids"][0]) == 24


def test_roberta_gets_no_token_types_and_no_more_tokens_than_positions(tiny_roberta):
    rows = load_rows(spec(TASKS["mrpc"], "builtin"))
    tokens = tokenize(TASKS["mrpc"], rows, tiny_roberta, 63)["train"]
    assert "token_type_ids" not in tokens.column_names
    with pytest.raises(SubtuneError, match="max_length: found 64, expected at most 63"):
        tokenize(TASKS["mrpc"], rows, tiny_roberta, 64)


@pytest.mark.parametrize("name", ["data-00000-of-00001.arrow", "dataset_info.json", "state.json"])
@pytest.mark.fault(
    "files", "stored tokens or Fisher information are damaged", "the message says what to delete"
)
def test_a_directory_with_a_damaged_file_is_named_with_what_to_do(tmp_path, name):
    stored = tmp_path / "stored"
    examples.rows_of(TASKS["sst2"]).save_to_disk(stored)
    path = stored / "train" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(SubtuneError) as error:
        read_splits(stored)
    assert str(error.value).startswith(f"{stored} is damaged; delete it, and run snakemake again")
    assert "\n" not in str(error.value)

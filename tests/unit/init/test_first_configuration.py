"""`subtune init`, from tables to a configuration that can be planned, and its text."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from snakemake.common.configfile import load_configfile

from subtune import cli, config
from subtune.config.schema import Assumptions
from subtune.core.errors import SubtuneError
from subtune.init import first_configuration
from subtune.init import settings as chosen
from subtune.init.settings import StartingModel, choices
from subtune.planning.cost import Estimates
from subtune.planning.plan import Plan
from subtune.planning.plan import plan as plan_of
from subtune.tasks import Task
from tests.helpers.tables import glue_csv, write

MINE = Path("mine.yaml")
# A machine that no test runs on.
ASSUMED = Assumptions(device="a fast one", teraflops={"fp32": 50, "bf16": 10})


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A directory to work in, on a machine of known speed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chosen, "estimated_speed", lambda: ASSUMED)
    return tmp_path


def rows_of(labels=("good", "bad"), columns=("sentence", "label"), rows=12, about="film"):
    """Rows that differ in text and label."""
    cells = [(f"this {about} has part {n} of {rows}", labels[n % len(labels)]) for n in range(rows)]
    return [dict(zip(columns, row, strict=True)) for row in cells]


def tables(here, columns=("sentence", "label"), **others) -> tuple[str, str, str, str]:
    """The arguments that name two small tables with these columns."""
    train = write(here / "films-train.csv", columns, rows_of(columns=columns, **others))
    dev = write(here / "films-dev.csv", columns, rows_of(columns=columns, about="book", **others))
    return "--train", train.name, "--dev", dev.name


def call(capsys, *arguments) -> tuple[int, str, str]:
    """The status of `subtune init`, what it says, and its error."""
    status = cli.main(["init", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def written(capsys, *arguments) -> tuple[config.Config, Plan, str]:
    """Return the configuration that `subtune init` wrote, its plan, and the printed lines."""
    status, said, problem = call(capsys, *arguments, "--to", MINE)
    assert (status, problem) == (0, "")
    assert len(MINE.read_text().splitlines()) <= 40
    checked = config.read(MINE)
    return checked, plan_of(checked), said


FLAGS = ("text", "toxic", "insult", "threat")
FLAGGED = [(f"this text is the one of number {n}", n % 2, n % 3 == 0, 0) for n in range(24)]


@pytest.mark.parametrize("in_lists", [True, False])
def test_any_number_of_labels_are_a_task_of_their_own(in_lists, here, capsys):
    rows = [dict(zip(FLAGS, map(str, map(int_or_text, row)), strict=True)) for row in FLAGGED]
    if in_lists:
        rows = [
            {"text": row["text"], "labels": json.dumps([w for w in FLAGS[1:3] if row[w] == "1"])}
            for row in rows
        ]
    train = write(here / "train.csv", tuple(rows[0]), rows)
    checked, _, said = written(capsys, "--train", train.name)
    [task] = (task for task in checked.all_tasks().values() if task.kind == "multilabel")
    assert task.label == ("labels" if in_lists else FLAGS[1:])
    assert task.labels == (("insult", "toxic") if in_lists else FLAGS[1:])
    assert "insult (8)" in said
    assert "always answering toxic is right in 33% of the rows" in said
    assert ("label 'threat' is in no training row" in said) is not in_lists


def int_or_text(cell):
    return cell if isinstance(cell, str) else int(cell)


# GLUE's task, its rows, its label words, and which metric and how many epochs suit it.
REAL = [
    ("sst2", 200, ("0", "1"), "accuracy", 20),
    ("cola", None, ("0", "1"), "matthews_correlation", 4),
    ("mrpc", None, ("0", "1"), "matthews_correlation", 5),
    ("stsb", None, None, "spearmanr", 4),
]


@pytest.mark.parametrize(("task", "rows", "labels", "metric", "epochs"), REAL)
def test_real_tables_are_understood_without_a_word(
    here, capsys, glue_dir, task, rows, labels, metric, epochs
):
    train, dev = glue_csv(glue_dir, task, here, rows)
    options = "--train", train, "--dev", dev, "--minutes", 10_000
    checked, planned, said = written(capsys, *options)
    ((name, of_task),) = checked.tasks.items()
    experiment = checked.experiments["mine"]
    assert name == f"{task}-task"
    assert of_task.labels == labels
    assert of_task.metrics[0] == metric
    assert (experiment.epochs, len(experiment.seeds)) == (epochs, 5)
    trained = ["full", "bitfit", "layernorm", "lora-I", "frozen"]
    assert list(experiment.methods) == [*trained, "embeddings"]
    assert experiment.labels == ("raw" if labels else "standard")
    # Embeddings have one run for all seeds.
    assert len(planned.runs) == 26
    assert "time: about " in said
    assert "shorter" not in said


def test_what_is_said_is_what_is_written(here, capsys, tiny_bert):
    checked, planned, said = written(capsys, *tables(here), "--model", tiny_bert)
    experiment = checked.experiments["mine"]
    assert checked.assumptions == ASSUMED
    assert checked.models["tiny-bert"].path == str(tiny_bert)
    for line in (
        "films-train.csv: 12 rows to train on; columns sentence, label",
        "text: column 'sentence' (a guess; --text names another)",
        "2 classes: bad (6), good (6)",
        "2 classes in the dev rows: bad (6), good (6)",
        "always answering good is right in 50% of the dev rows",
        "12 dev rows show differences in accuracy from about 0.32 at best",
        f"max_length {experiment.max_length}, which cuts none",
        f"{len(planned.runs) - 1} runs: methods (full, bitfit, layernorm, lora-I, frozen) × 5 ",
        " × 5 seeds, and embeddings; ",
        "subtune run mine.yaml",
        "results/films/answers.md",
    ):
        assert line in said


def test_settings_fit_into_the_minutes_that_are_asked(here, capsys, glue_dir, monkeypatch):
    slow = Assumptions(device="slow", teraflops={"fp32": 0.02, "bf16": 0.04}, start_minutes=0.1)
    monkeypatch.setattr(chosen, "estimated_speed", lambda: slow)
    train, dev = glue_csv(glue_dir, "sst2", here, 2000)
    arguments = "--train", train, "--dev", dev, "--minutes"
    seconds = {}
    for minutes in (600, 60, 0.1):
        checked, planned, said = written(capsys, *arguments, minutes)
        MINE.unlink()
        seconds[minutes] = sum(Estimates(checked, planned).sweep(s).seconds for s in planned.sweeps)
        experiment = checked.experiments["mine"]
        assert len(experiment.seeds) == 5
        assert ("shorter, to fit" in said) == (minutes < 600)
        assert ("that is longer than 6 seconds" in said) == (minutes < 1)
    assert seconds[60] / chosen.count_jobs_at_once() < 60 * 60
    assert seconds[600] > seconds[60] > seconds[0.1]
    # Not even the shortest settings take seconds.
    assert experiment.train_rows == (1000,)
    assert "without lora-I, frozen; 1,000 of 2,000 rows train; 3 epochs in place of 10\n" in said


@pytest.mark.slow
def test_long_texts_have_a_shorter_window_before_methods_are_dropped(here, capsys, monkeypatch):
    speed = Assumptions(device="usual", teraflops={"fp32": 0.2, "bf16": 0.4})
    monkeypatch.setattr(chosen, "estimated_speed", lambda: speed)
    monkeypatch.setattr(chosen, "count_jobs_at_once", lambda: 2)
    columns, arguments = ("sentence", "label"), tables(here)
    write(here / "films-train.csv", columns, rows_of(rows=100, about="long " * 1390))
    found = {}
    for minutes in (10_000, 30, 10, 3):
        checked, _, said = written(capsys, *arguments, "--minutes", minutes)
        experiment, text = checked.experiments["mine"], MINE.read_text()
        MINE.unlink()
        found[minutes] = experiment.max_length, len(experiment.methods)
        assert "max_length 512, which cuts 100.0% of them and reads 36.6% of their tokens" in said
    assert found == {10_000: (512, 6), 30: (256, 6), 10: (128, 6), 3: (64, 4)}
    what_is_read = "which cuts 100.0% of them and reads 4.6% of their tokens"
    assert f"; max_length 64 in place of 512, {what_is_read}\n" in said
    assert f"    max_length: 64  # tokens of a text, {what_is_read}\n" in text


def test_what_is_named_is_not_guessed(here, capsys, tiny_bert):
    arguments = tables(here, ("review", "mood"), labels=("1", "2", "3", "4"))
    arguments += "--text", "review", "--label", "mood", "--regression", "--model", str(tiny_bert)
    checked, _, said = written(capsys, *arguments)
    task = checked.tasks["films"]
    assert (task.text, task.label, task.kind_name) == (("review",), "mood", "regression")
    assert "a guess" not in said


def test_files_may_be_called_anything_and_be_of_any_format(here, capsys, tiny_bert):
    folder = here / "größere Tabellen: 1"
    folder.mkdir()
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows_of())
    (folder / "Güte train.jsonl").write_text(lines)
    (folder / "dev #2.tsv").write_text("label\tsentence\ngood\ta b\nbad\tc d\n")
    files = folder.name + "/Güte train.jsonl", folder.name + "/dev #2.tsv"
    arguments = "--train", files[0], "--dev", files[1], "--model", tiny_bert
    checked, _, _ = written(capsys, *arguments)
    assert tuple(checked.tasks["Gute"].files.values()) == files


def test_methods_that_a_decoder_has_not_are_left_out(here, capsys, directory_of):
    llama = directory_of("llama")
    capsys.readouterr()
    checked, _, said = written(capsys, *tables(here), "--model", llama)
    methods = checked.experiments["mine"].methods
    assert "bitfit" not in methods
    assert "layernorm" in methods
    assert "method bitfit is left out: selection: " in said


def test_a_model_on_the_hub_is_not_asked_for(here, capsys, monkeypatch):
    monkeypatch.setattr(
        "huggingface_hub.HfApi.repo_info", lambda *of_repository, **others: pytest.fail()
    )
    status, said, problem = call(capsys, *tables(here), "--model", "someone/some-model")
    assert (status, problem) == (0, "")
    assert config.read(Path("films.yaml")).models["some-model"].hub == "someone/some-model"
    assert "tokens, guessed from their words" in said
    assert "time: not known before someone/some-model is downloaded" in said


def test_what_may_be_a_mistake_is_said(here, capsys, tiny_bert):
    arguments = tables(here)
    write(here / "films-dev.csv", ("sentence", "label"), [*rows_of()[:2], *rows_of(("odd",))[2:3]])
    _, _, said = written(capsys, *arguments, "--model", tiny_bert)
    assert "3 of the 3 dev rows are also in the training file" in said
    assert "label 'odd' is in no training row" in said


@pytest.mark.parametrize(("rows", "folds"), [(rows_of(), 5), (rows_of()[:7], 4)])
def test_without_dev_rows_each_row_is_judged_by_a_run_that_has_not_seen_it(
    here, capsys, tiny_bert, rows, folds
):
    write(here / "films-train.csv", ("sentence", "label"), rows)
    arguments = "--train", "films-train.csv", "--model", tiny_bert
    checked, plan, said = written(capsys, *arguments)
    assert f"no dev rows: each row is judged once, by one of {folds} runs that have not" in said
    assert "right in 5" in said and "% of the rows" in said
    experiment = checked.experiments["mine"]
    assert (experiment.folds, experiment.seeds) == (folds, tuple(range(folds)))
    assert checked.tasks["films"].files == {"train": "films-train.csv"}
    bitfit = [of for of in plan.experiments["mine"] if of.method == "bitfit"]
    assert [of.fold for of in bitfit] == [*range(folds)]


# Arguments, of which TABLES are two good ones, and the only line that is printed.
REFUSED = [
    (
        "--train once.csv",
        "once.csv: found too few rows of label 'good', expected at least two,",
    ),
    ("--train same.csv", "same.csv: found too few different texts, expected at least two, one to"),
    ("--train films-train.csv --dev ./films-train.csv", "--train, --dev, --test: found films-t"),
    ("--train films-train.csv --dev link.csv", "--train, --dev, --test: found films-train.csv, l"),
    ("--train none.csv --dev films-dev.csv", "none.csv: no such file or directory, expected a"),
    (
        "TABLES --test ./films-dev.csv",
        "--train, --dev, --test: found films-train.csv, films-dev.csv, f",
    ),
    ("TABLES --label lable", "films-train.csv: no such column: found 'lable', expected one of"),
    ("--train films-train.csv --dev other.csv", "other.csv: no such column: found 'sentence', exp"),
    ("TABLES --text label", "tasks.films: found column 'label' as text and as label, expected"),
    ("TABLES --regression", "films-train.csv: line 2: label: found 'good', expected a number"),
    ("TABLES --model ./none", "--model: found './none', expected an existing directory, an inst"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_mistake_is_said_in_one_line_and_nothing_is_written(here, capsys, arguments, message):
    (here / "other.csv").write_text("text,label\na b c,good\n")
    (here / "once.csv").write_text("text,label\na b c,good\ng h i,bad\n")
    (here / "same.csv").write_text("text,label\n" + 2 * "a b c,good\na b c,bad\n")
    (here / "link.csv").symlink_to(here / "films-train.csv")
    words = arguments.replace("TABLES", " ".join(tables(here))).split()
    status, _, problem = call(capsys, *words)
    assert status == 1
    assert problem.startswith(message)
    assert problem.count("\n") == 1
    assert not list(here.glob("*.yaml"))


def test_a_table_that_training_would_refuse_is_refused(here, capsys):
    arguments = tables(here)
    (here / "films-train.csv").write_text("sentence,label\n,good\nb,bad\n")
    status, _, problem = call(capsys, *arguments)
    assert status == 1
    assert problem == "films-train.csv: line 2: found no text, expected some\n"


AWKWARD = (
    *("yes", "No", "on", "off", "y", "null", "~", "true", "nan", ".inf", "1e-3", "1_000", "0o7"),
    *("²", "12:30", "2024-01-01", "a: b", "a #b", "it's", 'so "so"', "- a", "[a]", "{a}", "*a"),
    *("&a", "!a", "%a", "@a", "`a", "a, b", "|", ">", "?", "größer", "日本", "a\tb", "a\nb", "<<"),
    *("=", "1.0", "+1", "-1", "\u2028", "\x85", "😀", "a\\b", "__use_yte__", "a" * 300),
)
MODEL = StartingModel(source="path", reference="models/mein Modell: 1", reason="")


def with_examples(test):
    for text in AWKWARD:
        test = example(text)(test)
    return test


@with_examples
@given(st.text(min_size=1))
def test_any_text_comes_back_as_it_was(text):
    quoted = first_configuration.quoted(text)
    assert yaml.safe_load(quoted) == text
    assert yaml.safe_load(f"{{{quoted}: [{quoted}]}}") == {text: [text]}


def test_a_configuration_says_what_it_was_made_of_to_snakemake_too(tmp_path):
    labels = tuple(text for text in AWKWARD if text == text.strip())
    columns = {"text": ("a: b", "²"), "label": "yes", "labels": labels}
    task = Task(name="123", title="123", metrics=("accuracy",), **columns)
    files = {"train": "mein Ordner/größe #1.csv", "validation": "no: 'dev'.csv"}
    measured = Assumptions(device="two: 'cores'", teraflops={"fp32": 0.1, "bf16": 1e-05})
    text = first_configuration.text_of(
        task,
        next(choices(200, [32], 384, ["full", "frozen"], 3)),
        assumptions=measured,
        command="subtune run mine.yaml",
        results="results/mine",
        files=files,
        model=MODEL,
        rows=200,
        folds=None,
        cut_share="which cuts none",
        at_once=2,
        margin=0.02,
    )
    path = tmp_path / "größe.yaml"
    first_configuration.write(path, text)
    checked = config.read(path)
    written = checked.tasks["123"]
    assert (written.text, written.label, written.labels) == (("a: b", "²"), "yes", labels)
    assert written.files == files
    assert checked.models["mein-Modell-1"].path == MODEL.reference
    assert checked.experiments["mine"].methods["full"].search == (1e-4, 2e-4, 3e-4)
    assert checked.assumptions == measured
    as_snakemake_reads = json.loads(json.dumps(load_configfile(path)))
    assert as_snakemake_reads == yaml.safe_load(text)
    assert config.check(as_snakemake_reads) == checked


@pytest.mark.parametrize(
    ("name", "message"),
    [("there.yaml", "File exists"), ("missing/mine.yaml", "No such file or directory")],
)
def test_a_place_that_cannot_be_written_is_said_in_a_line(tmp_path, name, message):
    (tmp_path / "there.yaml").write_text("kept")
    with pytest.raises(SubtuneError, match=f"--to: cannot write .*: {message}"):
        first_configuration.write(tmp_path / name, "text")
    assert (tmp_path / "there.yaml").read_text() == "kept"

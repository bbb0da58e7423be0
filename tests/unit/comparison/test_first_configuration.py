"""`subtune init`, from tables to a configuration that can be planned, and its text."""

import json
import shlex
import shutil
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from snakemake.common.configfile import load_configfile
from transformers import AutoModel

from subtune import cli
from subtune.comparison import pace
from subtune.comparison.first_configuration import quote_yaml
from subtune.comparison.pace import MeasuredPace
from subtune.comparison.settings import OTHER_SECONDS, estimate_seconds
from subtune.config.checks import check_config, read_config
from subtune.config.schema import Pace
from subtune.core import process
from subtune.models.model_files import silence_transformers
from subtune.plan import inputs
from subtune.plan.cost import Estimates
from subtune.plan.plan import make_plan
from subtune.tasks.sentences import plain_label
from subtune.tasks.task import TaskSize
from tests.helpers.messages import assert_message
from tests.helpers.tables import glue_csv, write

MINE = Path("mine.yaml")
# Made-up machines.
FAST = MeasuredPace("a fast one", {"matrices": Pace(per_layer=0, per_teraflop=0.1)})
SLOW = MeasuredPace("a slow one", {"matrices": Pace(per_layer=0, per_teraflop=40)})
FILMS = "--train films-train.csv --dev films-dev.csv"


def rows_of(labels=("good", "bad"), rows=12, about="film"):
    """Rows that differ in text and label."""
    text = f"this {about} has part {{}} of {rows}"
    return [{"sentence": text.format(n), "label": labels[n % len(labels)]} for n in range(rows)]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A directory with two small tables, on a machine of known speed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pace, "measure_pace", lambda *of: FAST)
    monkeypatch.setattr(process, "count_jobs_at_once", lambda: 2)
    for name, about in (("train", "film"), ("dev", "book")):
        write(tmp_path / f"films-{name}.csv", ("sentence", "label"), rows_of(about=about))
    return tmp_path


@pytest.fixture
def call(capsys):
    """A function that returns the status of `subtune init`, its output, and its error."""

    def call(arguments: str) -> tuple[int, str, str]:
        status = cli.main(["init", *shlex.split(arguments)])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def written(call):
    """A function that returns the written configuration, its plan, and the printed lines."""

    def written(arguments: str):
        MINE.unlink(missing_ok=True)
        status, said, problem = call(f"{arguments} --to {MINE}")
        assert (status, problem) == (0, "")
        assert len(MINE.read_text().splitlines()) <= 50 or arguments.count("--model") > 1
        checked = read_config(MINE)
        return checked, make_plan(checked), said

    return written


@pytest.mark.parametrize("in_lists", [True, False])
def test_any_number_of_labels_are_a_task_of_their_own(in_lists, here, written):
    rows = [
        {"text": f"this is the text of number {n}", "toxic": n % 2, "insult": int(n % 3 == 0)}
        for n in range(24)
    ]
    if in_lists:
        names = ("toxic", "insult")
        rows = [
            {"text": row["text"], "labels": json.dumps([name for name in names if row[name]])}
            for row in rows
        ]
    write(here / "train.csv", (*rows[0],), rows)
    checked, _, said = written("--train train.csv")
    [task] = (task for task in checked.all_tasks().values() if task.kind == "multilabel")
    assert task.label == ("labels" if in_lists else ("toxic", "insult"))
    assert task.metrics == ("f1_micro", "f1_macro", "accuracy")
    assert task.labels == (("insult", "toxic") if in_lists else ("toxic", "insult"))
    assert "insult (8)" in said
    assert "always predicting 'toxic' is correct for 33.3% of the rows" in said


@pytest.mark.parametrize(
    ("labels", "order"), [(("fraud", "ok", "ok"), ("ok", "fraud")), ("011", ("0", "1"))]
)
def test_the_rarer_of_two_labels_is_the_one_that_f1_is_of(here, written, labels, order):
    write(here / "train.csv", ("sentence", "label"), rows_of(labels, rows=24))
    [task] = written("--train train.csv")[0].tasks.values()
    assert task.labels == order


# GLUE's task, its rows and label words, and the metric and epochs that suit it.
REAL = [
    ("sst2", 200, ("0", "1"), "accuracy", 10),
    ("cola", None, ("0", "1"), "matthews_correlation", 3),
    ("mrpc", None, ("0", "1"), "matthews_correlation", 4),
    ("stsb", None, None, "spearmanr", 3),
]


@pytest.mark.parametrize(("task", "rows", "labels", "metric", "epochs"), REAL)
def test_real_tables_need_no_option(here, written, glue_dir, task, rows, labels, metric, epochs):
    train, dev = glue_csv(glue_dir, task, here, rows)
    checked, planned, said = written(f"--train {train} --dev {dev} --minutes 10000")
    ((name, of_task),) = checked.tasks.items()
    experiment = checked.experiments["mine"]
    assert (name, of_task.labels, of_task.metrics[0]) == (f"{task}-task", labels, metric)
    assert (experiment.epochs, len(experiment.seeds)) == (epochs, 5)
    trained = ["full", "bitfit", "layernorm", "lora-I", "frozen"]
    assert list(experiment.methods) == [*trained, "embeddings", "tf-idf", "constant"]
    assert experiment.labels == ("raw" if labels else "standard")
    # Baselines have one run for all seeds.
    assert len({run.key for run in planned.runs_on_most_rows("mine")}) == 28
    assert "time: about " in said
    assert "reduced to fit" not in said


def test_a_model_without_a_pooler_reads_the_mean_of_all_tokens(written, copied):
    without = copied(weights=lambda of: {name: of[name] for name in of if "pooler" not in name})
    [model] = written(f"{FILMS} --model {without}")[0].models.values()
    assert model.pooling == "mean"


def test_parts_of_a_model_that_are_left_out_are_said_and_written(written, copied):
    directory, kind = copied(), "sentence_transformers.models.Dense\nand: more"
    (directory / "modules.json").write_text(json.dumps([{"type": kind, "path": "2_Dense"}]))
    checked, _, said = written(f"{FILMS} --model {directory}")
    [name] = checked.models
    note = "used without the module Dense and: more of sentence-transformers; its classifier and"
    assert f"model {name}: {note} embeddings are computed from one token of a text\n" in said
    assert f"    # {note}" in MINE.read_text()


def test_a_head_that_a_models_files_lack_is_said_and_written(written, directory_of, tmp_path):
    with silence_transformers():
        whole = directory_of("modernbert")
        shutil.copytree(whole, tmp_path / "mine")
        AutoModel.from_pretrained(whole).save_pretrained(tmp_path / "mine")
    checked, _, said = written(f"{FILMS} --model {tmp_path / 'mine'}")
    [name] = checked.models
    assert f"model {name}: its files lack the head below the classifier" in said
    assert "    # its files lack the head below the classifier" in MINE.read_text()


def test_the_lines_say_what_is_written(written, tiny_bert):
    checked, planned, said = written(f"{FILMS} --model {tiny_bert}")
    experiment = checked.experiments["mine"]
    assert (checked.assumptions.device, checked.assumptions.pace) == FAST[:2]
    assert checked.models["tiny-bert"].path == str(tiny_bert)
    for line in (
        "films-train.csv: 12 rows for training; columns sentence, label",
        "text: column 'sentence' (guessed; choose another with --text)",
        "2 classes in the dev set: bad (6), good (6)",
        f"max_length {experiment.max_length}, which truncates no text",
        f"{len(planned.runs)} runs: methods (full, bitfit, layernorm, lora-I, frozen) × 5 ",
        " × 5 seeds, (embeddings, tf-idf, constant); ",
        " run mine.yaml",
        "results/films/answers.md",
    ):
        assert line in said


def test_settings_fit_into_the_minutes_that_are_asked(here, written, glue_dir, monkeypatch):
    monkeypatch.setattr(pace, "measure_pace", lambda *of: SLOW)
    train, dev = glue_csv(glue_dir, "sst2", here, 2000)
    seconds = {}
    for minutes in (600, 60, 0.1):
        checked, planned, said = written(f"--train {train} --dev {dev} --minutes {minutes}")
        seconds[minutes] = sum(Estimates(planned).sweep_cost(s).seconds for s in planned.sweeps)
        experiment = checked.experiments["mine"]
        assert len(experiment.seeds) == (5 if minutes > 1 else 2)
        assert experiment.share_of_rows == (1 if minutes > 1 else 0.25)
        assert ("reduced to fit" in said) == (minutes < 1)
        assert ("these runs take longer than 6 seconds" in said) == (minutes < 1)
    # A plan guesses the number of tokens from words.
    assert seconds[60] / 2 < 1.1 * 60 * 60
    assert seconds[600] >= seconds[60] > seconds[0.1]
    # Even the shortest settings take longer than seconds.
    assert "sample of 500 of 2,000 rows for training" in said
    assert [*experiment.methods] == ["full", "layernorm", "embeddings", "tf-idf", "constant"]
    assert "one fixed learning rate per method" in said


@pytest.mark.nightly
@pytest.mark.slow
def test_long_texts_have_a_shorter_window_before_methods_are_dropped(here, written, monkeypatch):
    usual = MeasuredPace("usual", {"matrices": Pace(per_layer=0, per_teraflop=10)})
    monkeypatch.setattr(pace, "measure_pace", lambda *of: usual)
    rows = rows_of(rows=100, about="long " * 1390)
    write(here / "films-train.csv", ("sentence", "label"), rows)
    found = {}
    for minutes in (10_000, 6, 3, 0.5):
        checked, _, said = written(f"{FILMS} --minutes {minutes}")
        experiment = checked.experiments["mine"]
        found[minutes] = experiment.max_length, len(experiment.methods)
        assert "max_length 512, which truncates 100.0% of the texts and keeps 36.6% of all" in said
    assert found == {10_000: (512, 8), 6: (256, 8), 3: (128, 8), 0.5: (64, 5)}
    share = "which truncates 100.0% of the texts and keeps 4.6% of all tokens"
    assert f"; max_length 64 instead of 512, {share}\n" in said
    assert f"    max_length: 64  # in tokens, {share}\n" in MINE.read_text()


@pytest.mark.parametrize("dev", ["", " --dev films-dev.csv"])
def test_the_order_of_models_changes_nothing(here, written, directory_of, dev, capsys):
    models = [directory_of(family) for family in ("bert", "distilbert", "llama")]
    capsys.readouterr()
    found = []
    for order in permutations(models):
        names = "".join(f" --model {model}" for model in order)
        _, plan, said = written(f"--train films-train.csv{dev}{names}")
        found.append((MINE.read_text(), [*plan.runs], said))
    assert all(of == found[0] for of in found)
    # The line counts the runs of all models, and those of methods that read texts once.
    runs = {run.key for run in plan.runs_on_most_rows("mine")}
    of_texts = {run.key for run in plan.experiments["mine"] if run.spec.reads_texts}
    assert len(of_texts) == (2 if dev else 2 * 5)
    assert f"\n{len(runs)} runs: methods (full, layernorm, " in said
    # One model has no biases.
    assert len(runs) == (3 * 6 * 5 + 2 * 5 - 5 if not dev else 3 * (5 * 5 + 1) + 2 - 5)
    assert " × 3 models, (bitfit) × 5 " in said


def test_the_time_of_each_model_is_estimated_with_its_own_pace(
    here, written, directory_of, monkeypatch
):
    factors = {directory_of("bert"): 1, directory_of("roberta"): 100}

    def measure(model, *_):
        pace = Pace(per_layer=1000 * factors[model.directory], per_teraflop=0)
        return MeasuredPace("one core", {"matrices": pace})

    monkeypatch.setattr(pace, "measure_pace", measure)
    # With one worker, the times of models add up.
    monkeypatch.setattr(process, "count_jobs_at_once", lambda: 1)
    names = "".join(f" --model {model}" for model in factors)
    checked, plan, _ = written(f"{FILMS}{names} --minutes 100000")
    costs = Estimates(plan).run_costs
    full = {r.model_name: costs[r.key].seconds for r in plan.runs.values() if r.method == "full"}
    low, high = sorted(full.values())
    assert high == pytest.approx(100 * low)
    size = TaskSize(train_rows=12, evaluation_rows=12, test_rows=0, tokens=5)
    estimate = partial(estimate_seconds, checked, checked.experiments["mine"], size)
    alone = [estimate({name: 5}) for name in checked.models]
    both = estimate(dict.fromkeys(checked.models, 5))
    # Methods that read texts are fitted once. 25 seconds are for tables and figures.
    assert both == pytest.approx(sum(alone) - OTHER_SECONDS, abs=5)
    assert estimate({}) is None


def test_a_model_that_fails_in_training_steps_is_left_out(written, directory_of, monkeypatch):
    def measure(model, *_):
        if "roberta" in model.reference:
            raise RuntimeError("no such kernel")
        return FAST

    monkeypatch.setattr(pace, "measure_pace", measure)
    names = f" --model {directory_of('bert')} --model {directory_of('roberta')}"
    checked, _, said = written(FILMS + names)
    assert [*checked.models] == ["tiny-bert"]
    assert "model tiny-roberta is left out: no such kernel\n" in said


def test_a_named_column_is_not_guessed(here, written, tiny_bert):
    for name in ("films-train.csv", "films-dev.csv"):
        write(here / name, ("sentence", "label"), rows_of(labels="1234"))
        (here / name).write_text((here / name).read_text().replace("sentence,label", "review,mood"))
    options = "--text review --label mood --regression"
    checked, _, said = written(f"{FILMS} {options} --model {tiny_bert}")
    task = checked.tasks["films"]
    assert (task.text, task.label, task.kind_name) == (("review",), "mood", "regression")
    assert "guessed" not in said


def test_methods_that_a_decoder_has_not_are_left_out(written, directory_of, capsys):
    model = directory_of("llama")
    capsys.readouterr()
    checked, _, said = written(f"{FILMS} --model {model}")
    methods = checked.experiments["mine"].methods
    assert "bitfit" not in methods
    assert "layernorm" in methods
    assert "method bitfit is left out: selection: " in said


def test_a_model_on_the_hub_is_not_asked_for(call, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *of, **others: pytest.fail())
    status, said, problem = call(f"{FILMS} --model someone/some-model")
    assert (status, problem) == (0, "")
    assert read_config(Path("films.yaml")).models["some-model"].hub == "someone/some-model"
    assert "tokens (estimated from the number of words)" in said
    assert "time: unknown until someone/some-model is downloaded" in said


@pytest.mark.parametrize(("rows", "folds"), [(12, 5), (7, 4)])
def test_without_dev_rows_each_row_is_judged_by_a_run_that_has_not_seen_it(
    here, written, tiny_bert, rows, folds
):
    write(here / "films-train.csv", ("sentence", "label"), rows_of()[:rows])
    checked, plan, said = written(f"--train films-train.csv --model {tiny_bert}")
    assert (
        f"no dev set: each row is predicted once, by the run (one of {folds}) that did not" in said
    )
    assert ("labels with fewer rows than folds: 'bad'; some folds" in said) == (rows == 7)
    experiment = checked.experiments["mine"]
    assert (experiment.folds, experiment.seeds) == (folds, tuple(range(folds)))
    assert checked.tasks["films"].files == {"train": "films-train.csv"}
    bitfit = [of for of in plan.experiments["mine"] if of.method == "bitfit"]
    assert [of.spec.recipe.fold.number for of in bitfit] == [*range(folds)]


# Arguments, the place of the mistake, and what is found there.
REFUSED = [
    ("--train once.csv", "once.csv", "found too few rows of label 'good'"),
    ("--train same.csv", "same.csv", "found too few different texts"),
    ("--train films-train.csv --dev other.csv", "other.csv", "no column 'sentence'"),
    (f"{FILMS} --regression", "films-train.csv: line 2: label", "found 'good'"),
    (f"{FILMS} --margin 2", "--margin", "found 2"),
    (f"{FILMS} --text sentence --text2 sentence", "films-train.csv", "'sentence' is named twice"),
    (f"{FILMS} --group label", "films-train.csv", "column 'label' is named twice"),
    ("--train empty.csv --dev films-dev.csv", "empty.csv: line 2", "the text is empty"),
]


@pytest.mark.parametrize(("arguments", "place", "found"), REFUSED)
def test_a_mistake_is_said_in_one_line_and_nothing_is_written(here, call, arguments, place, found):
    (here / "other.csv").write_text("text,label\na b c,good\n")
    (here / "once.csv").write_text("text,label\na b c,good\ng h i,bad\n")
    (here / "same.csv").write_text("text,label\n" + 2 * "a b c,good\na b c,bad\n")
    (here / "empty.csv").write_text("sentence,label\n,good\nb,bad\n")
    status, _, problem = call(arguments)
    assert status == 1
    assert_message(problem, f"{place}: ", found)
    assert not list(here.glob("*.yaml"))


AWKWARD = (
    *("yes", "No", "on", "off", "y", "null", "~", "true", "nan", ".inf", "1e-3", "1_000", "0o7"),
    *("²", "12:30", "2024-01-01", "a: b", "a #b", "it's", 'so "so"', "- a", "[a]", "{a}", "*a"),
    *("&a", "!a", "%a", "@a", "`a", "a, b", "|", ">", "?", "größer", "日本", "a\tb", "a\nb", "<<"),
    *("=", "1.5", "+1", "-1", "\u2028", "\x85", "😀", "a\\b", "__use_yte__", "a" * 300),
)


def with_examples(test):
    for text in AWKWARD:
        test = example(text)(test)
    return test


@with_examples
@given(st.text(min_size=1))
def test_any_text_comes_back_as_it_was(text):
    written = quote_yaml(text)
    assert yaml.safe_load(written) == text
    assert yaml.safe_load(f"{{{written}: [{written}]}}") == {text: [text]}


def test_a_configuration_says_what_it_was_made_of_to_snakemake_too(
    here, call, tiny_bert, monkeypatch
):
    labels = sorted(text for text in AWKWARD if text == text.strip())
    rows = [{"a: b": f"one {n}", "²": "film", "yes": label} for n, label in enumerate(3 * labels)]
    files = {"train": "größe #1/123-train.csv", "validation": "größe #1/no: 'dev'.csv"}
    (here / "größe #1").mkdir()
    for name in files.values():
        write(here / name, (*rows[0],), rows)
    model = "mein Modell: 1"
    shutil.copytree(tiny_bert, here / model)
    device = "two: 'cores'"
    timed = MeasuredPace(device, FAST.pace, "bf16")
    monkeypatch.setattr(pace, "measure_pace", lambda *of: timed)
    columns = "--text 'a: b' --text2 ² --label yes --classes"
    places = "--train '{train}' --dev \"{validation}\"".format(**files)
    path = here / "größe.yaml"
    assert call(f"{places} {columns} --model '{model}' --to {path}")[::2] == (0, "")
    checked = read_config(path)
    task = checked.tasks["123"]
    assert (task.text, task.label, {*task.labels}) == (
        ("a: b", "²"),
        "yes",
        {*map(plain_label, labels)},
    )
    assert task.files == files
    assert checked.models["mein-Modell-1"].path == model
    assert checked.experiments["mine"].methods["full"].search == (2.5e-5, 5e-5, 1e-4)
    assert checked.assumptions.device == device
    assert checked.experiments["mine"].precision == "bf16"
    as_snakemake_reads = json.loads(json.dumps(load_configfile(path)))
    assert as_snakemake_reads == yaml.safe_load(path.read_text("utf-8"))
    assert check_config(as_snakemake_reads) == checked


@pytest.mark.parametrize(
    ("name", "message"),
    [("there.yaml", "File exists"), ("missing/mine.yaml", "No such file or directory")],
)
def test_a_place_that_cannot_be_written_is_said_in_a_line(here, call, name, message):
    (here / "there.yaml").write_text("kept")
    code, said, error = call(f"{FILMS} --to {name}")
    assert (code, error) == (1, f"--to: cannot write {name}: {message}\n")
    assert bool(said) == (message != "File exists")
    assert (here / "there.yaml").read_text() == "kept"


@pytest.mark.parametrize("dev", ["", " --dev films-dev.csv"])
def test_tables_are_not_read_again_to_plan(here, call, monkeypatch, dev):
    monkeypatch.setattr(inputs, "task_size", None)
    assert call(f"--train films-train.csv{dev} --to {MINE}")[0] == 0

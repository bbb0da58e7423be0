"""Configurations as text: whatever is in them comes back as it was."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from snakemake.common.configfile import load_configfile

from subtune import config
from subtune.config.schema import Assumptions
from subtune.core.errors import SubtuneError
from subtune.init import first_configuration
from subtune.init.choosing import choices
from subtune.init.models import StartingModel
from subtune.tasks import Task

AWKWARD = (
    *("yes", "No", "on", "off", "y", "null", "~", "true", "nan", ".inf", "1e-3", "1_000", "0o7"),
    *("²", "12:30", "2024-01-01", "a: b", "a #b", "it's", 'so "so"', "- a", "[a]", "{a}", "*a"),
    *("&a", "!a", "%a", "@a", "`a", "a, b", "|", ">", "?", "größer", "日本", "a\tb", "a\nb", "<<"),
    *("=", "1.0", "+1", "-1", "\u2028", "\x85", "😀", "a\\b", "__use_yte__", "a" * 300),
)
MODEL = StartingModel(source="path", reference="models/mein Modell: 1", reason="")


def text_of(task: Task, files: dict[str, str], assumed: Assumptions | None = None) -> str:
    settings = next(choices(200, [32], 384, ["full", "frozen"], 3))
    about = {"rows": 200, "folds": None, "cut_share": "which cuts none", "at_once": 2}
    about |= {"margin": 0.02}
    return first_configuration.text_of(
        task,
        settings,
        assumed or Assumptions(),
        command="subtune run mine.yaml",
        results="results/mine",
        files=files,
        model=MODEL,
        **about,
    )


def task_of(name="mine", text=("text",), label="label", labels=("a", "b")) -> Task:
    metrics = ("accuracy",) if labels else ("spearmanr",)
    return Task(name=name, title=name, text=text, label=label, labels=labels, metrics=metrics)


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
    task = task_of("123", ("a: b", "²"), "yes", labels)
    files = {"train": "mein Ordner/größe #1.csv", "validation": "no: 'dev'.csv"}
    measured = Assumptions(device="two: 'cores'", teraflops={"fp32": 0.1, "bf16": 1e-05})
    text = text_of(task, files, measured)
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
    [
        ("there.yaml", "file exists"),
        ("missing/mine.yaml", "no such file or directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_said_in_a_line(tmp_path, name, message):
    (tmp_path / "there.yaml").write_text("kept")
    with pytest.raises(SubtuneError, match=f"--to: cannot write .*: {message}"):
        first_configuration.write(tmp_path / name, "text")
    assert (tmp_path / "there.yaml").read_text() == "kept"

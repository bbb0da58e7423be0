"""The commands and configurations that the pages show, checked instead of run for hours."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml
from snakemake.cli import get_profile_dir, parse_args, parse_config

from subtune import cli
from subtune.analysis.tables import read_table
from subtune.comparison import pace
from subtune.comparison.pace import MeasuredPace
from subtune.config.checks import check_config, read_config
from subtune.config.schema import OwnTask, Pace
from subtune.data import sources
from subtune.exhibits import output
from subtune.exhibits.answer_tables import answers_table, format_answers, summary_table
from subtune.methods import SELECTION
from subtune.models.dimensions import count_parameters, read_dimensions
from subtune.steps.context import plan_and_check
from subtune.tasks.task import KINDS
from tests.helpers.exhibits import results
from tests.helpers.pages import NOT_RUN, blocks
from tests.helpers.project import ROOT

README = ROOT / "README.md"
TASKS, OWN_METHOD = ROOT / "docs" / "tasks.md", ROOT / "docs" / "own-method.md"
RULES = {
    rule
    for path in [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    for rule in re.findall(r"^rule (\w+):", path.read_text(), re.M)
}
READ_RESULTS = ("runs", "export", "predict", "verify")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def check(command: str, **placeholders: str) -> None:
    """Fail unless a command could run in the repository.

    ``make``: it knows the target. ``python -m``: the module has the options. ``snakemake``: it
    takes the options, and all runs of the configuration can be planned. ``subtune``: the command
    runs; only those that read records may fail with a line, since the repository has no records.
    """
    words = [_filled_in(word, placeholders) for word in shlex.split(command)]
    program, arguments = Path(words[0]).name, words[1:]
    if program == "make":
        assert {word for word in arguments if "=" not in word} <= TARGETS
    elif program == "python":
        _check_python(arguments)
    elif program == "snakemake":
        _check_snakemake(arguments)
    elif arguments[0] == "run":
        _check_snakemake(["--configfile", *arguments[1:]])
    elif arguments[0] == "compare":
        # tests/workflow/test_wheel.py runs it.
        assert cli.main(["init", *arguments[1:], "--to", placeholders["new"]]) == 0
    else:
        assert program == "subtune"
        # It counts all methods if none is named, which takes long.
        arguments = ["params", "bitfit"] if arguments == ["params"] else arguments
        assert cli.main(arguments) <= (arguments[0] in READ_RESULTS)


def _filled_in(word: str, placeholders: dict[str, str]) -> str:
    name, equals, value = word.rpartition("=")
    return name + equals + placeholders.get(value, value)


def _check_python(arguments: list[str]) -> None:
    if arguments[0] == "-c":
        subprocess.run([sys.executable, *arguments], check=True)
        return
    module = ROOT / arguments[1].replace(".", "/")
    source = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
    options = [word for word in arguments[2:] if word.startswith("--")]
    assert all(f'"{option}"' in source.read_text() for option in options)


def _check_snakemake(arguments: list[str]) -> None:
    _, options = parse_args(arguments)
    configured = options.configfile or [ROOT / "config.yaml"]
    for profile in options.profile or []:
        _, path = get_profile_dir(profile)
        if "config" in yaml.safe_load(Path(path).read_text()):
            configured = [path]
    data = yaml.safe_load(Path(configured[0]).read_text())
    written = json.dumps(data.get("config", data) | parse_config(options.config))
    asked = {*options.targets, *options.until, *options.forcerun}
    assert asked <= RULES | _plan_experiments(written, Path.cwd())


@cache
def _plan_experiments(written: str, folder: Path) -> set[str]:
    """Plan a configuration in a folder, once for several commands; return its experiments."""
    checked = check_config(json.loads(written))
    plan_and_check(checked)
    return {*checked.experiments}


COMMANDS = dict.fromkeys(
    command
    for block in blocks()
    if block.language == "shell"
    for command in block.commands
    if not command.startswith(tuple(NOT_RUN))
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(command, request, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    placeholders = {"weather.yaml": "examples/own.yaml", "new": str(tmp_path / "new.yaml")}
    placeholders |= {"FILE": "examples/own.yaml", "tickets.csv": str(tmp_path / "tickets.csv")}
    texts = (ROOT / "examples" / "packages.csv").read_text(encoding="utf-8")
    tickets = texts.replace("description,label", "body,queue", 1)
    (tmp_path / "tickets.csv").write_text(tickets, encoding="utf-8")
    if "my-model" in command and "params" in command:
        placeholders["my-model"] = str(request.getfixturevalue("minilm"))
    if "subtune init" in command or "subtune compare" in command:
        # tests/unit/comparison/test_pace.py measures the machine.
        speeds = MeasuredPace("a machine", {"vectors": Pace(per_layer=0.01, per_teraflop=10)})
        monkeypatch.setattr(pace, "measure_pace", lambda *of: speeds)
    if "subtune init" in command:
        # tests/workflow/test_compare.py trains a configuration like the one that this writes.
        command += f" --to {tmp_path / 'new.yaml'}"
    if "glue_dir=" in command:
        placeholders[command.rpartition("glue_dir=")[2]] = str(request.getfixturevalue("glue_dir"))
    of_pages = {"words-and-spans": ("ud_ewt", "squad"), "rankings": ("glue", "ud_ewt")}
    for names in (names for example, names in of_pages.items() if f"{example}.yaml" in command):
        # The page asks for the reader's two directories.
        monkeypatch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        (tmp_path / "data").mkdir()
        for name in names:
            (tmp_path / "data" / name).symlink_to(request.getfixturevalue(f"{name}_dir"))
    check(command, **placeholders)


def test_init_says_which_command_runs_its_configuration(tmp_path, monkeypatch, capsys, tiny_bert):
    """tests/workflow/test_compare.py trains such a configuration."""
    monkeypatch.chdir(tmp_path)
    train, dev = (str(ROOT / "examples" / f"weather-{split}.csv") for split in ("train", "dev"))
    head, *rows = Path(train).read_text().splitlines(keepends=True)
    Path("train.csv").write_text(head + "".join(rows[:-9]))
    Path("test.csv").write_text(head + "".join(rows[-9:]))
    sources = ["--train", "train.csv", "--dev", dev, "--test", "test.csv"]
    assert cli.main(["init", *sources, "--model", str(tiny_bert), "--to", "first words.yaml"]) == 0
    said = capsys.readouterr().out
    assert "test.csv: 9 rows for final scores only" in said
    [command] = re.findall(r"^    (.*subtune'? run .*)$", said, re.MULTILINE)
    check(command)
    [answers] = re.findall(r"results/\S+\.md", said)
    assert Path(answers).parent == Path(read_config(Path("first words.yaml")).results)


def test_the_answer_shown_is_that_of_the_recorded_scores(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "84")
    example = ROOT / "results" / "example" / "ten_minutes"
    chosen = read_table(example / "chosen.csv", "scores")
    row_scores = pd.read_csv(example / "row_scores.csv", dtype={"run": str})
    ours = results({"packages": "packages"}, chosen=chosen, row_scores=row_scores)
    for name, make in (("answers", answers_table), ("summary", summary_table)):
        output.write_table(make(ours), [tmp_path / f"{name}.csv"])
    answer = "\n".join(format_answers(tmp_path / "answers.csv").splitlines()[1:-2])
    assert textwrap.indent(answer, "    ").rstrip() in README.read_text(encoding="utf-8")
    # The page on intervals shortens this answer: some lines are missing, and … ends the last one.
    parts = [b.text for b in blocks() if b.page == "docs/intervals.md" and b.language == "text"]
    lines = [" ".join(line.strip(" …").split()) for line in parts[0].splitlines()]
    assert lines and all(line in " ".join(answer.split()) for line in lines)


def test_the_readme_has_commands():
    assert "make demo" in COMMANDS and len(COMMANDS) >= 20


def test_the_selections_fit_a_model_of_six_layers(minilm):
    blocks = re.findall(r"```yaml\n(selections:.*?)```", OWN_METHOD.read_text(), re.S)
    selections = {}
    for block in blocks:
        selections |= yaml.safe_load(block)["selections"]
    assert len(selections) == 6
    counts = count_parameters(
        {"minilm": read_dimensions(minilm)},
        {name: SELECTION.validate_python(given) for name, given in selections.items()},
        outputs=2,
    )
    assert counts["problem"].isna().all()
    # The first one is that of the example.
    shapes = read_dimensions(minilm).shapes(outputs=2)
    own = read_config(ROOT / "examples" / "own.yaml").selections
    [name] = own
    on_page = SELECTION.validate_python(selections[name])
    assert on_page.resolve(shapes, seed=0) == own[name].resolve(shapes, seed=0)


def test_the_code_of_a_page_trains_a_configuration_without_snakemake(
    tiny_bert, tmp_path, monkeypatch, capsys
):
    [code] = re.findall(r"```python\n(.*?)```", OWN_METHOD.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    own = yaml.safe_load((ROOT / "examples" / "own.yaml").read_text())
    own["models"] = {"tiny": {"path": str(tiny_bert)}}
    [name] = own["selections"]
    own["selections"] = {name: {"parameters": ["encoder.layer.1.**.bias"]}}
    files_of = own["tasks"]["weather"]["files"]
    own["tasks"]["weather"]["files"] = {split: str(ROOT / file) for split, file in files_of.items()}
    few = {"models": ["tiny"], "tasks": ["weather"], "seeds": [0], "epochs": 1}
    own["experiments"]["mine"] |= few
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "own.yaml").write_text(yaml.safe_dump(own))
    exec(code, {})
    # Full fine-tuning, two methods with two learning rates, and the embeddings.
    assert capsys.readouterr().out.count("weather") == 6


def test_the_tasks_are_one_of_each_kind_and_read_their_files():
    [block] = re.findall(r"```yaml\n(tasks:.*?)```", TASKS.read_text(), re.S)
    tasks = {name: OwnTask(**given) for name, given in yaml.safe_load(block)["tasks"].items()}
    assert [task.kind_name for task in tasks.values()] == [*KINDS]
    # The other tasks name files that only readers have.
    for name in ("weather", "recipes", "shops"):
        paths = {split: ROOT / path for split, path in tasks[name].files.items()}
        columns = sources.read_columns(tasks[name].task(name), paths)
        assert all(columns[split]["idx"] for split in ("train", "validation"))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_valid_configuration(path):
    assert read_config(path).experiments


@pytest.mark.parametrize("name", ["own", "own-words-and-questions"])
def test_an_example_whose_files_are_here_can_be_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.main(["plan", f"examples/{name}.yaml"]) == 0

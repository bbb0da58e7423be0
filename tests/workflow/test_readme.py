"""The commands and configurations that the pages show."""

import re
import textwrap
from pathlib import Path

import pandas as pd
import pytest
import yaml

from subtune import cli, config
from subtune.analysis.scores import read_scores
from subtune.config.schema import OwnTask
from subtune.data import files
from subtune.exhibits import output
from subtune.exhibits.answers import answers_in_lines, decisions, methods_by_score
from subtune.models.dimensions import dimensions_in
from subtune.selections import SELECTION
from subtune.tasks.task import KINDS
from tests.helpers import commands
from tests.helpers.project import ROOT

README = ROOT / "README.md"
OWN_DATA, OWN_METHOD = (ROOT / "docs" / f"own-{name}.md" for name in ("data", "method"))
PAGES = [README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
COMMANDS = dict.fromkeys(command for page in PAGES for command in commands.shown_in(page))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(command, request, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if Path(command.split()[0]).name not in commands.PROGRAMS:
        pytest.skip("another program's command")
    placeholders = {"weather.yaml": "examples/own.yaml", "new": str(tmp_path / "new.yaml")}
    placeholders |= {"FILE": "examples/own.yaml"}
    if "my-model" in command and "params" in command:
        placeholders["my-model"] = str(request.getfixturevalue("minilm"))
    if "subtune init" in command:
        # tests/workflow/test_compare.py trains a configuration like the one that this writes.
        command += f" --to {tmp_path / 'new.yaml'}"
    if "glue_dir=" in command:
        placeholders[command.rpartition("glue_dir=")[2]] = str(request.getfixturevalue("glue_dir"))
    if "words-and-spans" in command:
        # The page asks for the reader's two directories.
        monkeypatch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        (tmp_path / "data").mkdir()
        for name in ("ud_ewt", "squad"):
            (tmp_path / "data" / name).symlink_to(request.getfixturevalue(f"{name}_dir"))
    commands.check(command, **placeholders)


def test_the_answer_shown_is_that_of_the_recorded_scores(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "96")
    example = ROOT / "results" / "example" / "packages"
    chosen = read_scores(example / "chosen.csv")
    row_scores = pd.read_csv(example / "row_scores.csv", dtype={"run": str})
    for name, make in (("answers", decisions), ("summary", methods_by_score)):
        made = make(chosen, {"packages": "packages"}, row_scores)
        output.write_table(made, [tmp_path / f"{name}.csv"])
    lines = answers_in_lines(tmp_path / "answers.csv").splitlines()
    answer = "\n".join(lines[lines.index("minilm:") : -2])
    assert textwrap.indent(answer, "    ") in README.read_text(encoding="utf-8")


def test_the_readme_has_commands():
    assert "make demo" in COMMANDS and len(COMMANDS) >= 20


def test_the_selections_fit_a_model_of_six_layers(minilm):
    [block] = re.findall(r"```yaml\n(selections:.*?)```", OWN_METHOD.read_text(), re.S)
    shapes = dimensions_in(minilm).shapes(outputs=2)
    selections = yaml.safe_load(block)["selections"]
    assert len(selections) == 3
    for selection in selections.values():
        SELECTION.validate_python(selection).resolve(shapes, seed=0)


def test_the_tasks_are_one_of_each_kind_and_read_their_files():
    [block] = re.findall(r"```yaml\n(tasks:.*?)```", OWN_DATA.read_text(), re.S)
    tasks = {name: OwnTask(**given) for name, given in yaml.safe_load(block)["tasks"].items()}
    assert [task.kind_name for task in tasks.values()] == [*KINDS]
    # Comments and examples with pairs name files that only readers have.
    for name in ("weather", "recipes", "shops"):
        paths = {split: (ROOT / path,) for split, path in tasks[name].files.items()}
        columns = files.columns_of(tasks[name].task(name), paths)
        assert all(columns[split]["idx"] for split in ("train", "validation"))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_valid_configuration(path):
    assert config.read(path).experiments


@pytest.mark.parametrize("name", ["own", "own-words-and-questions"])
def test_an_example_whose_files_are_here_can_be_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.main(["check", f"examples/{name}.yaml"]) == 0

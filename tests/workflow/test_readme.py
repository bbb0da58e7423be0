"""The commands and configurations that the README and the pages beside it show."""

import re

import pytest
import yaml

from subtune import cli, config
from subtune.config.schema import OwnTask
from subtune.data import files
from subtune.models.dimensions import dimensions_in
from subtune.selections import SELECTION
from subtune.tasks.kinds import KINDS
from tests.helpers import commands
from tests.helpers.project import ROOT

README = ROOT / "README.md"
OWN_DATA = ROOT / "docs" / "own-data.md"
PAGES = [README, OWN_DATA, *(ROOT / "docs" / f"{name}.md" for name in ("papers", "sharing"))]
COMMANDS = dict.fromkeys(command for page in PAGES for command in commands.shown_in(page))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(command, request, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if command.split()[0].removeprefix(".venv/bin/") not in ("make", "snakemake", "subtune"):
        pytest.skip("another program's command")
    placeholders = {"weather.yaml": "examples/own.yaml", "new": str(tmp_path / "new.yaml")}
    if "subtune init" in command:
        # tests/workflow/test_init.py trains a configuration like the one that this writes.
        command += f" --to {tmp_path / 'new.yaml'}"
    if "glue_dir=glue" in command:
        placeholders["glue"] = str(request.getfixturevalue("glue_dir"))
    commands.check(command, **placeholders)


def test_the_readme_has_commands():
    assert "make demo" in COMMANDS and len(COMMANDS) >= 20


def test_the_selections_fit_a_model_of_six_layers(minilm):
    [block] = re.findall(r"```yaml\n(selections:.*?)```", OWN_DATA.read_text(), re.S)
    shapes = dimensions_in(minilm).shapes(outputs=2)
    selections = yaml.safe_load(block)["selections"]
    assert len(selections) == 3
    for selection in selections.values():
        SELECTION.validate_python(selection).resolve(shapes, seed=0)


def test_the_tasks_are_one_of_each_kind_and_read_their_files():
    [block] = re.findall(r"```yaml\n(tasks:.*?)```", OWN_DATA.read_text(), re.S)
    tasks = {name: OwnTask(**given) for name, given in yaml.safe_load(block)["tasks"].items()}
    assert [task.kind_name for task in tasks.values()] == [*KINDS]
    # The fourth task, of pairs, names a file that only the reader would have.
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

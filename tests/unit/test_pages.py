"""Configurations and code on pages are accepted; tests/workflow/test_readme.py runs commands."""

import ast
import json
import textwrap
import tomllib
from pathlib import Path
from unittest.mock import create_autospec

import pytest
import yaml

import subtune
from subtune.config.checks import check_config
from subtune.config.schema import Experiment
from subtune.methods.rules import RULES
from subtune.papers import PAPERS
from tests.helpers.pages import NOT_RUN, Block, blocks, recipes
from tests.helpers.project import ROOT

BLOCKS = [*blocks()]
# Changes of files, which tests/unit/test_recipes.py applies to a copy.
APPLIED = {change.text for change in recipes()}
# Files of which a block is a part, by the block's beginning.
QUOTED = {
    "def gem(": "examples/my_rules.py",
}
# Pages whose code a test runs.
RUN = {
    "docs/from-another-workflow.md": "tests/workflow/test_module.py",
    "docs/methods.md": "tests/unit/training/test_tf_idf.py",
    "docs/own-method.md": "tests/workflow/test_readme.py",
}
# Code that needs a package, or data, that tests lack.
WITHOUT = {"docs/sharing.md": "tensorboard", "docs/tasks.md": "nltk and the Penn Treebank"}
LANGUAGES = {"shell", "yaml", "python", "json", "toml", "text"}


def of_language(language: str) -> list[Block]:
    """Blocks that are not applied or quoted."""
    other = tuple(QUOTED)
    return [
        one
        for one in BLOCKS
        if one.language == language and one.text not in APPLIED and not one.text.startswith(other)
    ]


def test_every_block_is_of_a_language_that_is_checked():
    assert {one.language for one in BLOCKS} == LANGUAGES
    assert len(BLOCKS) > 80 and len(of_language("shell")) > 30


@pytest.mark.parametrize("block", of_language("yaml"), ids=str)
def test_a_configuration_on_a_page_is_accepted(block):
    if "*low_rank" in block.text:
        # A line for the page's own example, which has the anchor.
        example, last = (ROOT / "examples" / "leaderboard.yaml").read_text(), "dora: *low_rank\n"
        assert check_config(yaml.safe_load(example.replace(last, last + block.text)))
        return
    config = yaml.safe_load((ROOT / "examples" / "own.yaml").read_text())
    given = yaml.safe_load(textwrap.dedent(block.text))
    if "results" in given:
        config = {}
    elif block.text.startswith(" "):
        place = "experiments" if given.keys() <= Experiment.model_fields.keys() else "tasks"
        given = {place: {"mine" if place == "experiments" else "weather": given}}
    assert check_config(_merge(config, given))


def _merge(old, new):
    """Return a configuration with the keys of another, which replaces values and lists."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return old | {key: _merge(old.get(key), value) for key, value in new.items()}


@pytest.mark.parametrize("block", of_language("python"), ids=str)
def test_code_on_a_page_calls_what_there_is(block, monkeypatch):
    if test := RUN.get(block.page):
        assert Path(block.page).name in (ROOT / test).read_text()
    elif block.page in WITHOUT:
        ast.parse(block.text)
    else:
        # tests/workflow/test_compare.py trains. Here only names, arguments and files count.
        answer = create_autospec(subtune.Comparison, instance=True)
        compare = create_autospec(subtune.compare, return_value=answer)
        monkeypatch.setattr(subtune, "compare", compare, raising=False)
        exec(block.text, {})
        [call] = compare.call_args_list
        assert all((ROOT / path).is_file() for path in call.args)


def test_a_part_of_a_file_is_quoted_as_it_stands_there():
    for beginning, source in QUOTED.items():
        [text] = [one.text for one in BLOCKS if one.text.startswith(beginning)]
        assert text in (ROOT / source).read_text()


@pytest.mark.parametrize("block", of_language("json"), ids=str)
def test_json_on_a_page_can_be_read(block):
    assert json.loads(block.text)


@pytest.mark.parametrize("block", of_language("toml"), ids=str)
def test_entry_points_on_a_page_are_those_that_are_read(block):
    points = tomllib.loads(block.text)["project"]["entry-points"]
    assert points.keys() == {PAPERS, RULES}


def test_what_cannot_be_run_is_on_a_page():
    commands = [command for one in of_language("shell") for command in one.commands]
    for beginning in NOT_RUN:
        assert any(command.startswith(beginning) for command in commands)

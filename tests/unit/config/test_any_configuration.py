"""Arbitrary configurations: they are valid, or lines say what is wrong."""

import copy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subtune.config.checks import check_config, read_config
from subtune.config.schema import Config
from subtune.core.errors import SubtuneError
from subtune.steps.context import plan_and_check
from tests.helpers.messages import assert_message
from tests.helpers.project import table
from tests.unit.config.test_config import GOOD, MOOD

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.sampled_from([0, -1, 1e-3, 2**64, 10**400, 1e308, True])
)
# Text files have neither NUL nor surrogates.
LETTERS = st.characters(exclude_categories=["Cs", "Cc"])
WORDS = st.one_of(
    st.text(LETTERS, max_size=20),
    st.sampled_from(["", "all", "search", "full", "bitfit", "~", "{x}", "../x", "²", "a" * 300]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, st.dates())
KEYS = st.one_of(WORDS, st.integers(), st.none(), st.booleans())


def nested(scalars):
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    )


VALUES = nested(SCALARS)
SECTIONS = sorted(Config.model_fields)


def said(function, *arguments):
    """The lines about mistakes; none if there are none."""
    try:
        function(*arguments)
    except SubtuneError as error:
        lines = str(error).splitlines()
        assert lines and all(line.strip() for line in lines)
        return lines
    return []


@given(VALUES | st.dictionaries(st.sampled_from(SECTIONS), VALUES, max_size=4))
def test_any_yaml_gives_a_configuration_or_lines_that_say_what_is_wrong(tmp_path_factory, given):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(given, allow_unicode=True), encoding="utf-8")
    for line in said(read_config, path):
        assert_message(line, place="", found="")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("any")
    for split in ("train", "validation"):
        (directory / f"mood-{split}.csv").write_text(table("mood", split, 12))
    return directory


def good(model) -> dict:
    """A configuration with all sections and few runs."""
    files = {split: f"mood-{split}.csv" for split in ("train", "validation")}
    experiment = GOOD["experiments"]["layernorm"] | {
        "models": ["tiny"],
        "tasks": ["mood", "rte"],
        "by_task": {"rte": {"epochs": 2}},
        "by_method": {"mine": {"epochs": 3}},
        "methods": {"full": [1e-3], "mine": [1e-2], "layernorm": "search"},
        "fractions": {"values": [0.25], "scopes": ["cv"]},
        "fisher_rows": 8,
        "seeds": [0, 1],
        "max_length": 16,
        "train_rows": [4, "all"],
    }
    return GOOD | {
        "models": {"tiny": {"path": str(model)}},
        "tasks": {"mood": MOOD | {"files": files}},
        "selections": {"mine": {"parameters": ["encoder.layer.0.**.bias"]}},
        "experiments": {"layernorm": experiment},
        "runs_per_job": 8,
    }


def places(value, place=()):
    """Every path in nested keys and lists, the outermost first."""
    if place:
        yield place
    if not isinstance(value, dict | list):
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield from places(inner, (*place, key))


def test_the_configuration_that_is_changed_is_good(directory, tiny_bert, monkeypatch):
    monkeypatch.chdir(directory)
    assert plan_and_check(check_config(good(tiny_bert))).plan.runs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.fault("models", "any value anywhere", "a plan, or one line per mistake")
def test_any_value_anywhere_gives_a_plan_or_clear_lines(directory, tiny_bert, monkeypatch, data):
    monkeypatch.chdir(directory)
    changed = copy.deepcopy(good(tiny_bert))
    place = data.draw(st.sampled_from([*places(changed)]))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if data.draw(st.booleans(), label="renamed") and isinstance(inner, dict):
        inner[data.draw(KEYS)] = inner.pop(place[-1])
    else:
        inner[place[-1]] = data.draw(VALUES)
    said(lambda: plan_and_check(check_config(changed)))

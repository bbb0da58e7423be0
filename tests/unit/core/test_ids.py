"""Content ids: equal values have equal ids, and nothing but values decides them."""

import json
import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from subtune.core.files import hash_files
from subtune.core.ids import HashableModel
from subtune.methods import METHODS, SELECTION, added, baselines, single_entries
from subtune.methods.selection import WholeTensors
from subtune.runs import spec
from subtune.tasks import TASKS, TaskSpec
from tests.helpers.examples import recipe, run_spec

# The fields of both recipes.
OF_DATA = ("train_rows", "fold", "refit", "class_weights")
# Every default of every value that has an id. Defaults are left out of ids and of records, so an
# old record would be read with a new default.
NUMBER = dict.fromkeys(("as_many_as", "count", "share"))
FIXED_DEFAULTS: dict[type[HashableModel], dict[str, Any]] = {
    spec.ModelSpec: {"repository": None, "pooling": None, "initial_classifier": "normal"},
    TaskSpec: {"label": "label", "evaluation": ("validation",)}
    | dict.fromkeys(("labels", "encoding", "sheet", "group", "metric_code")),
    spec.DataSpec: {"data_version": 1},
    spec.TokensSpec: {"doc_stride": None, "apart": False, "tokens_version": 1},
    spec.FisherSpec: {"seed": 0, "labels": "raw", "derivative": "gradient", "fisher_version": 1}
    | dict.fromkeys(("rows", "in_full", "fold")),
    spec.MaskSpec: {"code": None, "seed": 0, "mask_version": 1},
    spec.Recipe: {"labels": "raw", "patience": None} | dict.fromkeys(OF_DATA),
    spec.Fold: {"partition": 0, "rows": None, "version": 1},
    spec.FitRecipe: {"code": None, "fit_version": 1} | dict.fromkeys(OF_DATA),
    spec.RunSpec: {"recipe_version": 5},
    spec.SearchSpec: {"search_version": 1},
    spec.PlannedRun: {"search": None, "masks": (), "fraction": None, "scope": None},
    WholeTensors: {"without": None},
    single_entries.RandomEntries: NUMBER | {"within": ("**",)},
    single_entries.TopSettings: NUMBER | {"without": None, "by": "fisher", "scope": "individual"},
    single_entries.RankedEntries: {},
    single_entries.ChosenEntries: {},
    single_entries.Lines: {"whole": None},
    single_entries.Random: {},
    added.LoraSettings: {},
    added.Lora: {"parameters": None},
    added.AdapterSettings: {"size": None, "reduction": None},
    added.Adapters: {},
    single_entries.DiffPruningSettings: {
        "penalty": 1.25e-7,
        "structured": True,
        "gate_learning_rate": 0.1,
        "learning_rate": None,
    },
    single_entries.DiffPruning: {},
    baselines.RegressionSettings: {},
    baselines.Embeddings: {},
    baselines.TfIdf: {},
    baselines.Estimator: {"settings": (), "seeded": True},
    added.PeftSettings: {
        "type": "",
        "config": "",
        "model": "",
        "code": None,
        "fields_as_json": (),
    },
    added.Peft: {},
    single_entries.Ranked: {},
    single_entries.Top: {},
}
COMPUTED_DEFAULTS = {TaskSpec: ["kind"], spec.DataSpec: ["splits"]}
ADVICE = """
The default of a field of {} has changed, or the field has gone. Ids and records leave defaults
out: an old record would now be read with another value. Keep the default; or raise the version of
its stage in `subtune/runs/spec.py`, have `subtune.runs.records` give records of the versions
before it the old default, and only then change this table. A new field is a new row here."""


@pytest.mark.parametrize("kind", FIXED_DEFAULTS, ids=lambda kind: kind.__name__)
def test_no_default_changes(kind):
    fields = kind.model_fields
    optional = {name: field for name, field in fields.items() if not field.is_required()}
    computed = [name for name, field in optional.items() if field.default_factory]
    fixed = {name: field.default for name, field in optional.items() if name not in computed}
    assert fixed == FIXED_DEFAULTS[kind], ADVICE.format(kind.__name__)
    assert computed == COMPUTED_DEFAULTS.get(kind, []), ADVICE.format(kind.__name__)


def test_no_computed_default_changes():
    words = {"name": "t", "text": ("a",), "metrics": ("accuracy",), "labels": ("no", "yes")}
    numbers = {"name": "t", "text": ("a",), "metrics": ("pearsonr",)}
    assert TaskSpec(**words).kind == "classification", ADVICE.format("TaskSpec")
    assert TaskSpec(**numbers).kind == "regression", ADVICE.format("TaskSpec")
    data = spec.DataSpec(task=TASKS["mnli"], source="hub", version="1")
    splits = ("train", "validation_matched", "validation_mismatched")
    assert data.splits == splits, ADVICE.format("DataSpec")


def test_every_value_that_has_an_id_stands_in_the_table_of_defaults():
    found: set[Any] = set()
    pending: list[Any] = [spec.PlannedRun, spec.SearchSpec]
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, HashableModel) and kind not in found:
            found.add(kind)
            pending += [field.annotation for field in kind.model_fields.values()]
        pending += getattr(kind, "__args__", ())
    assert found == set(FIXED_DEFAULTS)


def test_an_id_does_not_change_between_versions_of_this_package():
    assert run_spec().id == "c0b7dd896c42"


WHOLE = WholeTensors(parameters=("**.bias",), without=("pooler.**",))
MODEL = spec.ModelSpec(source="hub", repository="a/b", version="1")
DATA = [
    spec.DataSpec(task=TASKS[task], source="hub", version="1")
    for task in ("rte", "stsb", "mnli", "squad", "ud_ewt")
]
TOKENS = spec.TokensSpec(data=DATA[0], tokenizer="t", max_length=8)
FISHER = spec.FisherSpec(model=MODEL, tokens=TOKENS)
RECIPES = [
    recipe(**changes)
    for changes in (
        {"learning_rate": 0.02},
        {"batch_size": 8},
        {"epochs": 3},
        {"schedule": "constant"},
        {"warmup": 0.2},
        {"weight_decay": 0.01},
        {"max_grad_norm": 2.0},
        {"precision": "bf16"},
        {"train_rows": 5},
        {"class_weights": "balanced"},
        {"fold": spec.Fold(of=5, number=0)},
    )
]
EMBEDDINGS = METHODS["embeddings"]
FITTED = run_spec().replace(selection=EMBEDDINGS, recipe=spec.FitRecipe(train_rows=5))
SEARCHES = [spec.SearchSpec(run=run_spec(), rates=rates) for rates in ((0.01, 0.1), (0.01, 0.2))]
TOP = {"share": 0.1, "of": ["**"]}
MASK = spec.MaskSpec(top=TOP, needs=("fisher",), head="tokens", samples=(FISHER,))
NAMES = {"model_name": "tiny", "method": "full", "train_rows": 8, "seed": 0}
SPECS = [
    *(MODEL, MODEL.replace(pooling="mean"), MODEL.replace(version="2")),
    MODEL.replace(initial_classifier="transformers"),
    *(*DATA, DATA[0].replace(splits=("test",))),
    *(TOKENS, TOKENS.replace(doc_stride=3), TOKENS.replace(apart=True)),
    *(FISHER, FISHER.replace(rows=5), FISHER.replace(in_full=WHOLE)),
    *(FISHER.replace(fold=spec.Fold(of=5, number=0)), MASK, MASK.replace(code="1")),
    *(MASK.replace(seed=1), MASK.replace(samples=(FISHER, FISHER))),
    *(*RECIPES, *(run_spec().replace(recipe=recipe) for recipe in RECIPES)),
    *(run_spec(), run_spec(task="cola"), run_spec(WHOLE), FITTED, FITTED.make_refit(3)),
    *(spec.PlannedRun(spec=run_spec(), search=search, **NAMES) for search in (None, *SEARCHES)),
    *SEARCHES,
]
SELECTIONS = [
    *METHODS.values(),
    WHOLE,
    single_entries.Top(top=single_entries.Ranked(ranking="r", fraction=0.1)),
    single_entries.ChosenEntries(entries="1"),
    single_entries.RankedEntries(top={"count": 3, "of": ["**"], "by": "gem"}),
]


def shuffled(content: Any, order: random.Random) -> Any:
    """Return the same content with the keys of every mapping in another order."""
    if isinstance(content, dict):
        keys = order.sample(sorted(content), len(content))
        return {key: shuffled(content[key], order) for key in keys}
    return [shuffled(one, order) for one in content] if isinstance(content, list) else content


@given(st.sampled_from([*SPECS, *SELECTIONS]), st.booleans(), st.randoms())
def test_an_id_depends_on_neither_order_nor_defaults_that_are_written_out(value, whole, order):
    """A value is also read back from what is written of it."""
    reader = SELECTION if value in SELECTIONS else TypeAdapter(type(value))
    if whole:
        read = reader.validate_python(shuffled(value.model_dump(), order))
    else:
        read = reader.validate_json(json.dumps(shuffled(value.json_types, order)))
    assert read == value
    assert read.id == value.id


@pytest.mark.parametrize("value", [*SPECS, *SELECTIONS], ids=lambda value: value.id)
def test_defaults_are_left_out_and_versions_are_always_written(value):
    defaults = FIXED_DEFAULTS[type(value)]
    left_out = {
        name
        for name, default in defaults.items()
        if getattr(value, name) == default and not name.endswith("_version")
    }
    computed = COMPUTED_DEFAULTS.get(type(value), [])
    assert (
        value.json_types.keys() - computed == type(value).model_fields.keys() - computed - left_out
    )


def test_two_values_have_one_id_only_if_they_are_equal():
    for one, other in combinations([*SPECS, *SELECTIONS], 2):
        assert (one.id == other.id) == (one == other)


@pytest.mark.parametrize("change", [{"title": "Semantic similarity"}, {"test": ()}])
def test_an_id_ignores_how_a_task_is_shown(change):
    task = TASKS["stsb"].model_copy(update=change)
    assert spec.DataSpec(task=task, source="hub", version="1").id == DATA[1].id


def test_a_fingerprint_is_of_content_not_of_place(tmp_path):
    one, same, other = (tmp_path / name for name in "abc")
    for path, content in ((one, "x"), (same, "x"), (other, "y")):
        path.write_text(content)
    assert hash_files(one) == hash_files(same) != hash_files(other)
    assert hash_files(one, other) != hash_files(other, one)

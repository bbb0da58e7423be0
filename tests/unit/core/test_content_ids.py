"""Content ids: equal values have equal ids, and nothing but values decides them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from subtune.core.content_ids import Value, fingerprint
from subtune.selections import SELECTION
from subtune.selections.added import (
    Adapter,
    AdapterSettings,
    Embeddings,
    EmbeddingsSettings,
    Lora,
    LoraSettings,
    Peft,
    PeftSettings,
)
from subtune.selections.entries import (
    DiffPruning,
    DiffPruningSettings,
    Draw,
    Lines,
    Random,
    Ranked,
    Top,
)
from subtune.selections.kind import WholeTensors
from subtune.selections.specs import (
    DataSpec,
    FisherSpec,
    Fit,
    Fold,
    ModelSpec,
    RankingSpec,
    Recipe,
    RunSpec,
    TokensSpec,
)
from subtune.tasks import TASKS
from subtune.tasks.task import TaskSpec
from tests.helpers.examples import run_spec

# Every default of every value that has an id. Defaults are left out of ids and of records, so an
# old record would be read with a new default.
FIXED_DEFAULTS: dict[type[Value], dict[str, Any]] = {
    ModelSpec: {"repository": None, "pooling": None},
    TaskSpec: {
        "label": "label",
        "labels": None,
        "evaluation": ("validation",),
        "encoding": None,
        "sheet": None,
        "merge_labels": False,
    },
    DataSpec: {"data_version": 1},
    TokensSpec: {"doc_stride": None, "apart": False, "tokens_version": 1},
    FisherSpec: {"rows": None, "seed": 0, "in_full": None, "labels": "raw", "fisher_version": 1},
    RankingSpec: {"ranking_version": 1},
    Recipe: {
        "train_rows": None,
        "patience": None,
        "search_seed": None,
        "trial": 0.1,
        "tie": 0.0,
        "labels": "raw",
        "fold": None,
        "search_folds": None,
        "refit": None,
        "class_weights": None,
    },
    Fold: {"partition": 0},
    Fit: {"train_rows": None, "fold": None, "refit": None, "class_weights": None},
    RunSpec: {"recipe_version": 5},
    WholeTensors: {"without": None},
    Draw: {"as_many_as": None, "count": None, "within": ("**",)},
    Lines: {"whole": None},
    Random: {},
    LoraSettings: {},
    Lora: {"parameters": None},
    AdapterSettings: {"size": None, "reduction": None},
    Adapter: {},
    DiffPruningSettings: {
        "penalty": 1.25e-7,
        "structured": True,
        "gate_learning_rate": 0.1,
        "learning_rate": None,
    },
    DiffPruning: {},
    EmbeddingsSettings: {},
    Embeddings: {},
    PeftSettings: {"fields_as_json": ()},
    Peft: {},
    Ranked: {},
    Top: {},
}
COMPUTED_DEFAULTS = {TaskSpec: ["kind"], DataSpec: ["splits"]}
ADVICE = """
The default of a field of {} has changed, or the field has gone. Ids and records leave defaults
out: an old record would now be read with another value. Keep the default; or raise the version of
its stage in `subtune/selections/specs.py`, have `subtune.runs.records` give records of the versions
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
    data = DataSpec(task=TASKS["mnli"], source="hub", version="1")
    splits = ("train", "validation_matched", "validation_mismatched")
    assert data.splits == splits, ADVICE.format("DataSpec")


def test_every_value_that_has_an_id_stands_in_the_table_of_defaults():
    found: set[Any] = set()
    pending: list[Any] = [RunSpec, RankingSpec]
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, Value) and kind not in found:
            found.add(kind)
            pending += [field.annotation for field in kind.model_fields.values()]
        pending += getattr(kind, "__args__", ())
    assert found == set(FIXED_DEFAULTS)


def test_an_id_does_not_change_between_versions_of_this_package():
    assert run_spec().id == "c0b7dd896c42"


def test_equal_specs_have_the_same_id_whatever_way_a_number_is_written():
    assert run_spec(learning_rate=0.001).id == run_spec(learning_rate=1e-3).id
    assert run_spec(weight_decay=0).id == run_spec(weight_decay=0.0).id


def test_a_default_that_is_written_out_changes_no_id():
    written_out = RunSpec.model_validate(run_spec().model_dump())
    assert written_out.id == run_spec().id
    assert "train_rows" not in run_spec().canonical()


def test_a_version_is_always_written():
    written = run_spec().written()
    assert written["recipe_version"] == 5
    assert written["tokens"]["tokens_version"] == 1
    assert written["tokens"]["data"]["data_version"] == 1


def test_every_setting_of_a_recipe_changes_the_id():
    ids = {
        run_spec().id,
        run_spec(learning_rate=0.02).id,
        run_spec(batch_size=8).id,
        run_spec(epochs=3).id,
        run_spec(schedule="constant").id,
        run_spec(warmup=0.2).id,
        run_spec(weight_decay=0.01).id,
        run_spec(max_grad_norm=2.0).id,
        run_spec(precision="bf16").id,
        run_spec(train_rows=5).id,
        run_spec(class_weights="balanced").id,
        run_spec(task="cola").id,
    }
    assert len(ids) == 12


# Values of every kind. The texts are few, so that equal parts are frequent.
PATTERNS = st.lists(st.sampled_from(["**", "**.bias", "a", "b"]), min_size=1, max_size=2)
RATES = st.floats(min_value=1e-6, max_value=1.0)
COUNTS = st.integers(min_value=1, max_value=3)


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


SELECTIONS = st.one_of(
    st.builds(WholeTensors, parameters=PATTERNS, without=optional(PATTERNS)),
    st.builds(Draw, count=COUNTS, within=PATTERNS).map(lambda draw: Random(random=draw)),
    st.builds(Draw, as_many_as=PATTERNS).map(lambda draw: Random(random=draw)),
    st.builds(Lines, lines_of=PATTERNS, whole=optional(PATTERNS)).map(lambda a: Random(random=a)),
    st.builds(
        Lora,
        lora=st.builds(LoraSettings, targets=PATTERNS, rank=COUNTS, alpha=RATES),
        parameters=optional(PATTERNS),
    ),
    st.builds(Ranked, ranking=st.sampled_from("ab"), fraction=RATES).map(lambda a: Top(top=a)),
)
MODELS = st.builds(
    ModelSpec,
    source=st.sampled_from(["hub", "files"]),
    repository=optional(st.just("a/b")),
    version=st.sampled_from("12"),
    pooling=st.sampled_from([None, "mean"]),
)
SPLITS = st.sampled_from([("train", "validation"), ("train",), ("test",)])
DATA = st.builds(
    lambda task, given: DataSpec(task=TASKS[task], source="hub", version="1", **given),
    st.sampled_from(["rte", "stsb", "mnli", "squad", "ud_ewt"]),
    st.fixed_dictionaries({}, optional={"splits": SPLITS}),
)
TOKENS = st.builds(
    TokensSpec,
    data=DATA,
    tokenizer=st.just("t"),
    max_length=st.just(8),
    doc_stride=optional(COUNTS),
    apart=st.booleans(),
)
FISHERS = st.builds(
    FisherSpec,
    model=MODELS,
    tokens=TOKENS,
    rows=optional(COUNTS),
    seed=st.integers(0, 2),
    in_full=optional(st.builds(WholeTensors, parameters=PATTERNS)),
)
RECIPES = st.builds(
    Recipe,
    learning_rate=RATES | st.tuples(RATES, RATES),
    batch_size=COUNTS,
    epochs=COUNTS,
    schedule=st.just("linear"),
    warmup=st.just(0.1),
    weight_decay=st.sampled_from([0, 0.01]),
    max_grad_norm=st.just(1.0),
    precision=st.sampled_from(["fp32", "bf16"]),
    train_rows=optional(COUNTS),
)
RUNS = st.builds(
    RunSpec, model=MODELS, tokens=TOKENS, selection=SELECTIONS, recipe=RECIPES, seed=COUNTS
) | st.builds(
    RunSpec,
    model=MODELS,
    tokens=TOKENS,
    selection=st.just(Embeddings(embeddings=EmbeddingsSettings())),
    recipe=st.builds(Fit, train_rows=optional(COUNTS)),
    seed=COUNTS,
)
RANKINGS = st.builds(
    RankingSpec,
    of=st.builds(WholeTensors, parameters=PATTERNS),
    fishers=st.lists(FISHERS, min_size=1, max_size=2),
)
ANY_VALUE = st.one_of(SELECTIONS, MODELS, DATA, TOKENS, FISHERS, RECIPES, RUNS, RANKINGS)


@given(ANY_VALUE)
def test_a_value_is_read_back_from_its_canonical_json(value):
    is_selection = isinstance(value, WholeTensors | Random | Lora | Top)
    reader = SELECTION if is_selection else TypeAdapter(type(value))
    read = reader.validate_json(value.canonical())
    assert read == value
    assert read.id == value.id


@given(ANY_VALUE, ANY_VALUE)
def test_two_values_have_one_id_only_if_they_are_equal(one, other):
    assert (one.id == other.id) == (one == other)


def test_a_fingerprint_is_of_content_not_of_place(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "c").write_text("y")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "c")
    assert fingerprint(tmp_path / "a", tmp_path / "c") != fingerprint(
        tmp_path / "c", tmp_path / "a"
    )

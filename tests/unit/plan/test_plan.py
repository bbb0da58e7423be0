"""Runs of a configuration, and new runs after a change."""

import csv
import subprocess
import sys
from collections import Counter

import pytest

from subtune.config.checks import check_config
from subtune.config.fields import SEARCHED
from subtune.core.errors import SubtuneError
from subtune.core.user_code import hash_own_code
from subtune.methods.single_entries import Top
from subtune.plan.cost import Estimates
from subtune.plan.plan import make_plan
from subtune.runs.spec import FitRecipe, Fold
from tests.helpers.peft_types import OWN_FILE
from tests.helpers.plans import (
    BASE,
    embedded,
    learning_rates,
    limits,
    new_runs,
    own_task,
    plan,
    rates_of,
)
from tests.helpers.project import ROOT


def test_a_new_task_makes_its_runs_and_those_of_masks_that_look_at_it(base):
    other = plan(tasks=["cola", "rte", "sst2", "mrpc"])
    old = [planned for planned in new_runs(base, other) if planned.task_name != "mrpc"]
    assert {planned.scope for planned in old} == {"global", "cv"}
    assert {planned.fraction for planned in old} == {0.1}
    assert set(base.fisher_specs) < set(other.fisher_specs)
    assert len(other.fisher_specs) - len(base.fisher_specs) == 1


@pytest.mark.parametrize(("of", "in_full"), [("layernorm", False), ("full", True)])
def test_masks_over_matrices_need_the_information_of_their_entries(of, in_full):
    found = plan(fractions={"of": of, "values": [0.1]})
    assert {fisher.in_full is not None for fisher in found.fisher_specs.values()} == {in_full}


def test_the_order_of_tasks_changes_nothing(base):
    assert set(plan(tasks=["sst2", "cola", "rte"]).runs) == set(base.runs)


def test_a_new_batch_size_makes_every_run_anew_and_nothing_before_it(base):
    other = plan(batch_size=16)
    assert not set(base.runs) & set(other.runs)
    for stage in ("models", "datasets", "tokens", "fisher_specs", "masks"):
        assert getattr(base, stage) == getattr(other, stage)


def test_a_tasks_own_settings_touch_its_runs_only(base):
    other = plan(by_task={"rte": {"batch_size": 16}})
    new = new_runs(base, other)
    assert {planned.task_name for planned in new} == {"rte"}
    assert {planned.spec.recipe.batch_size for planned in new} == {16}
    others = {p.spec.id for p in base.experiments["layernorm"] if p.task_name != "rte"}
    assert others < set(other.runs)


def test_a_methods_own_epochs_touch_its_runs_and_masks_only(base):
    other = plan(by_method={"layernorm": {"epochs": 12}})
    new = new_runs(base, other)
    assert {(planned.method, planned.fraction) for planned in new} == {
        ("layernorm", fraction) for fraction in (None, 0.1, 1.0)
    }
    assert {planned.spec.recipe.epochs for planned in new} == {12}
    others = {p.spec.id for p in base.experiments["layernorm"] if p.method == "full"}
    assert set(other.runs) == others | {planned.spec.id for planned in new}


RTE = {"rte": {"learning_rates": [7e-4], "epochs": 3}}
MASKS = {"values": [0.1], "scopes": ["individual"]}


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        # A method's own learning rates override its task's.
        ({"by_task": RTE, "methods": {"full": [1e-5], "bitfit": None}}, [1e-5, 7e-4]),
        ({"by_task": {"rte": {"learning_rates": {"search": [1e-2, 1e-3]}}}}, [(1e-3, 1e-2)]),
        # A model's methods override the experiment's.
        (
            {"by_model": {"minilm": {"methods": {"full": [2e-5]}}}, "methods": {"full": [1e-5]}},
            [2e-5],
        ),
        # Masks have the learning rates of their method.
        (
            {"by_task": RTE, "fractions": MASKS, "methods": {"full": None, "layernorm": [1e-3]}},
            [7e-4, 1e-3],
        ),
        ({"by_task": RTE, "fractions": MASKS}, [7e-4, 7e-4]),
    ],
)
def test_the_most_specific_learning_rates_win(settings, rates):
    made = plan(**{"tasks": ["rte"], "methods": {"bitfit": None}, "fractions": None} | settings)
    assert [*learning_rates(made).values()] == rates


def test_a_search_is_one_run_of_what_names_no_learning_rate():
    made = plan(
        tasks=["cola", "rte"],
        by_task={"rte": {"learning_rates": [7e-4]}},
        methods={"full": [1e-5, 2e-5], "bitfit": None, "layernorm": "search"},
        fractions={"values": [0.1], "scopes": ["individual"]},
        learning_rates="search",
    )
    rates = Counter(
        (p.method, p.fraction, p.task_name, rates_of(made, p))
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
            ("layernorm", 0.1, "rte", SEARCHED),
        ]
    )


def test_one_search_serves_all_seeds_of_a_method():
    methods = {"bitfit": "search", "layernorm": {"search": [1e-2, 1e-3]}, "full": [1e-5]}
    made = plan(methods=methods, tasks=["cola"], fractions=None, seeds=[3, 1, 2])
    found = Counter((p.method, p.search) for p in made.experiments["layernorm"])
    searches = {spec.rates: spec for spec in made.searches.values()}
    bitfit, layernorm = searches[SEARCHED], searches[1e-3, 1e-2]
    assert found == {("bitfit", bitfit): 3, ("layernorm", layernorm): 3, ("full", None): 3}
    for search, rate in ((bitfit, 1e-5), (layernorm, 1e-3)):
        assert (search.run.seed, search.run.recipe.learning_rate) == (3, rate)
    assert len(made.runs) == 9
    # The key of a run is its id, unless a search finds its learning rate.
    assert {p.method for p in made.runs.values() if p.key == p.spec.id} == {"full"}


def test_runs_of_several_models_are_apart_and_their_rows_are_not():
    models = BASE["models"] | {"roberta": {"hub": "FacebookAI/roberta-base"}}
    made = plan({"models": models}, models=["minilm", "roberta"], fractions=None)
    assert len(made.datasets) == 3
    assert len(made.tokens) == 6
    assert {p.model_name for p in made.experiments["layernorm"]} == {"minilm", "roberta"}
    assert len(made.runs) == 2 * 3 * 2


def test_the_global_mask_is_one_for_all_tasks_and_the_others_are_one_each(base):
    # 3 individual, 1 global, 3 cross-validated
    assert len(base.masks) == 7
    masks = {
        (planned.task_name, planned.scope): planned.spec.selection.top.ranking
        for planned in base.experiments["layernorm"]
        if isinstance(planned.spec.selection, Top)
    }
    assert len({masks[task, "global"] for task in ("cola", "rte", "sst2")}) == 1
    assert len({masks[task, "cv"] for task in ("cola", "rte", "sst2")}) == 3


def test_fraction_1_is_the_whole_selection_and_shares_its_run(base):
    planned = base.experiments["layernorm"]
    whole = {p.spec.id for p in planned if p.fraction == 1.0}
    assert whole == {p.spec.id for p in planned if p.method == "layernorm" and p.scope is None}


def test_planning_waits_for_no_library_that_computes_or_draws():
    code = (
        "import sys; from subtune.cli import main; "
        "main(['check', 'config.yaml']); main(['plan', 'config.yaml']); "
        "print({'torch', 'transformers', 'matplotlib', 'datasets', 'scipy', 'sklearn'}"
        " & {*sys.modules})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


# The mini tasks that `BASE` trains on.
ROWS = 200


def test_every_number_of_training_rows_trains_every_method(base):
    made = plan(train_rows=[10, 100, "all"]).experiments["layernorm"]
    assert limits(made) == {10: 10, 100: 100, ROWS: None}
    whole = [p for p in made if p.scope is None]
    assert len(whole) == 3 * len([p for p in base.experiments["layernorm"] if p.scope is None])
    # Fractions train on the largest number.
    assert {p.train_rows for p in made if p.scope is not None} == {ROWS}


def test_a_method_may_train_on_fewer_rows_alone(base):
    other = plan(by_method={"layernorm": {"train_rows": [100, 50]}})
    new = new_runs(base, other)
    assert {planned.method for planned in new} == {"layernorm"}
    assert {planned.train_rows for planned in new} == {100, 50}
    assert all(planned.fraction is None and planned.spec.recipe.epochs == 2 for planned in new)
    assert set(base.runs) < set(other.runs)
    # More rows than all other methods have would leave these out of the tables.
    many = plan(train_rows=100, by_method={"layernorm": {"train_rows": ["all", 100, 50]}})
    assert {p.train_rows for p in many.experiments["layernorm"]} == {100, 50}


def test_a_number_that_is_no_smaller_than_the_training_set_is_all_of_it(base):
    made = plan(train_rows=[100, ROWS, ROWS + 1, "all"])
    assert limits(made.experiments["layernorm"]) == {100: 100, ROWS: None}
    assert set(base.runs) < set(made.runs)
    assert len(made.runs) == len(base.runs) + 6
    assert plan(train_rows=ROWS).runs == base.runs


def test_a_task_may_have_numbers_of_training_rows_of_its_own():
    made = plan(train_rows=10, by_task={"rte": {"train_rows": [20, "all"]}})
    rows = {(p.task_name, p.train_rows) for p in made.experiments["layernorm"]}
    assert rows == {("cola", 10), ("sst2", 10), ("rte", 20), ("rte", ROWS)}


def test_the_largest_number_is_each_tasks_own(tmp_path):
    rows = "".join(f"row {n},{'ab'[n % 2]}\n" for n in range(20))
    made = plan(
        {"tasks": {"mood": own_task(tmp_path, rows)}}, tasks=["rte", "mood"], train_rows=[10, 50]
    )
    largest = {(p.task_name, p.train_rows) for p in made.runs_on_most_rows("layernorm")}
    assert largest == {("rte", 50), ("mood", 20)}


def test_seeds_of_embeddings_only_draw_rows():
    made, planned = embedded(tasks=["sst2"])
    assert {p.seed for p in planned} == {0, 1, 2}
    assert [(p.spec.seed, p.spec.recipe) for p in planned] == 3 * [(0, FitRecipe())]
    assert len(made.runs) == 3 + 1
    _, planned = embedded(tasks=["sst2"], train_rows=100)
    assert [p.spec.seed for p in planned] == [p.seed for p in planned] == [0, 1, 2]
    assert {p.spec.recipe for p in planned} == {FitRecipe(train_rows=100)}


def test_embeddings_read_the_texts_of_a_pair_separately():
    made, planned = embedded(tasks=["sst2", "rte"])
    tokens = {p.task_name: p.spec.tokens for p in planned}
    full = {p.task_name: p.spec.tokens for p in made.experiments["layernorm"] if p.method == "full"}
    assert tokens["sst2"] == full["sst2"]
    assert tokens["rte"] == full["rte"].replace(apart=True)
    assert {of.key for of in (*tokens.values(), *full.values())} == set(made.tokens)


def test_embeddings_leave_out_tasks_of_words_and_spans():
    _, planned = embedded(tasks=["cola", "squad", "ud_ewt"])
    assert {p.task_name for p in planned} == {"cola"}


def test_tf_idf_reads_no_model_and_is_planned_once_for_the_first_model_that_has_it():
    models = ["minilm", "bert-base-cased"]
    settings = {"models": models, "tasks": ["sst2"], "fractions": None}
    made = plan(methods={"full": [1e-5], "tf-idf": None}, **settings).experiments["layernorm"]
    trained = [p for p in made if p.method == "full"]
    assert [p.model_name for p in trained] == models
    [fitted] = [p for p in made if p.method == "tf-idf"]
    assert fitted.spec.tokens in {p.spec.tokens for p in trained}
    with_words = {"bert-base-cased": {"methods": {"words": None}}}
    made = plan(
        {"selections": {"words": {"tf_idf": {}}}},
        methods={"full": [1e-5]},
        by_model=with_words,
        **settings,
    ).experiments["layernorm"]
    assert [p.model_name for p in made if p.method == "words"] == ["bert-base-cased"]


def test_runs_and_searches_of_a_tuner_of_ones_own_have_the_hash_of_its_code():
    fields = {"config": f"{OWN_FILE}:ScaleConfig", "model": f"{OWN_FILE}:ScaleModel"}
    fields["target_modules"] = ["query"]
    made = plan(
        {"selections": {"scale": {"peft": fields}, "known": {"peft": {"type": "IA3"}}}},
        tasks=["cola"],
        methods={"scale": "search", "known": "search"},
        fractions=None,
    )
    runs = {p.method: p for p in made.experiments["layernorm"]}
    own, known = runs["scale"], runs["known"]
    for spec in (own.spec, own.search.run):
        assert spec.selection.peft.code == hash_own_code([fields["model"]] * 2)
    assert known.spec.selection.peft.code is None


EXPERIMENT = {
    "models": ["minilm"],
    "tasks": ["mood"],
    "methods": {"bitfit": {"search": [1e-3, 1e-2]}, "embeddings": None},
    "seeds": [4, 7, 2, 9],
    "folds": 2,
    "epochs": 2,
    "batch_size": 8,
}
TASK = {"text": ["text"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
REVIEWS = [(f"a film of {number} words", ["good", "bad"][number % 2]) for number in range(20)]


@pytest.fixture
def plan_table(tmp_path):
    """Plan an experiment on a table, with other settings."""

    def planned(rows=REVIEWS, files=("train",), task=TASK, **changes):
        paths = {split: str(tmp_path / f"{split}.csv") for split in files}
        for number, path in enumerate(paths.values()):
            with open(path, "w", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *rows[number:]])
        models, experiment = BASE["models"], EXPERIMENT | changes
        tasks = {"mood": task | {"files": paths}}
        data = {"models": models, "tasks": tasks, "experiments": {"mine": experiment}}
        return make_plan(check_config(data))

    return planned


@pytest.mark.fault(
    "numbers",
    "weights for a label without examples; equal regression labels; Fisher information of zero",
    "rejected",
)
def test_weights_of_a_label_without_a_row_are_one_line(plan_table):
    task = TASK | {"labels": ["bad", "fair", "good"]}
    message = (
        r"experiments.mine.class_weights: task 'mood': found label 'fair' in none of 20 "
        "training examples, expected some examples with and some without this label"
    )
    with pytest.raises(SubtuneError, match=message):
        plan_table(task=task, class_weights="balanced")
    plan_table(class_weights="balanced")
    plan_table(task=task)


@pytest.mark.parametrize("settings", [{}, {"folds": None, "files": ("train", "validation")}])
def test_weights_of_a_label_that_no_other_fold_has_are_one_line(plan_table, settings):
    """All rows of a rare label have one text, so they are in one fold. A search also has a fold."""
    rare = [f"rare {letter}" for letter in "abcdefgh"]
    task = TASK | {"labels": ["bad", "good", *rare]}
    rows = [(f"{text} {n}", label) for n in range(5) for text, label in REVIEWS]
    together = [(text, label) for label in rare for text in (label, label.upper(), f" {label}")]
    message = r"experiments.mine.class_weights: task 'mood': fold \d of \d: found label 'rare "
    with pytest.raises(SubtuneError, match=message):
        plan_table(task=task, class_weights="balanced", rows=rows + together, **settings)
    plan_table(task=task, rows=rows + together, **settings)
    apart = [(f"{label} {n}", label) for label in rare for n in range(5)]
    plan_table(task=task, class_weights="balanced", rows=rows + apart, **settings)


def test_every_run_of_label_words_has_the_class_weights(plan_table):
    planned = plan_table(class_weights="balanced")
    runs = [of.spec for of in planned.experiments["mine"]]
    assert {run.recipe.class_weights for run in runs} == {"balanced"}
    [search] = planned.searches.values()
    assert search.run.recipe.class_weights == "balanced"


def test_the_fold_follows_from_the_place_of_the_seed(plan_table):
    planned = plan_table()
    runs = planned.experiments["mine"]
    trained = {of.seed: of.spec.recipe.fold for of in runs if of.method == "bitfit"}
    first, second, third, fourth = [
        Fold(of=2, number=number, partition=partition, version=2)
        for partition, number in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert trained == {4: first, 7: second, 2: third, 9: fourth}
    assert [of.spec.recipe.fold.number for of in runs if of.method == "embeddings"] == [0, 1, 0, 1]
    assert len({of.key for of in runs}) == 8
    assert {of.train_rows for of in runs} == {10}
    [search] = planned.searches.values()
    assert (search.run.seed, search.run.recipe.fold) == (4, first)


def test_numbers_of_training_rows_are_of_those_outside_the_fold(plan_table):
    planned = plan_table(train_rows=[5, "all"])
    limits = {(of.train_rows, of.spec.recipe.train_rows) for of in planned.experiments["mine"]}
    assert limits == {(5, 5), (10, None)}


def test_a_test_file_judges_with_folds_too(plan_table):
    planned = plan_table(files=("train", "test"))
    task = planned.experiments["mine"][0].spec.tokens.data.task
    assert task.evaluation == ("validation", "test")
    assert planned.experiments["mine"][0].spec.tokens.data.splits == ("train", "test")


def test_a_search_leaves_the_dev_rows_to_judge_where_it_can(plan_table):
    def fold(**changes):
        settings = {"folds": None, "files": ("train", "validation")} | changes
        [search] = plan_table(**settings).searches.values()
        return search.run.recipe.fold

    apart = Fold(of=5, number=0, version=2)
    assert fold() == apart
    assert fold(paper="bitfit") is None
    assert fold(files=("train", "validation", "test")) is None
    assert fold(rows=[*REVIEWS[::2], REVIEWS[1]]) == apart
    assert fold(rows=REVIEWS[:8]) is None
    assert fold(folds=2, files=("train",)) == Fold(of=2, number=0, version=2)


def test_at_most_as_many_rows_judge_a_search_as_train(plan_table):
    def judged(train_rows):
        files = ("train", "validation")
        planned = plan_table(folds=None, files=files, train_rows=train_rows)
        [search] = planned.searches.values()
        fold = search.run.recipe.fold
        return fold.rows, planned.task_size(search.run.tokens, fold).evaluation_rows

    # A fold has 4 of the 20 rows.
    assert judged("all") == (None, 4)
    assert judged(4) == (None, 4)
    assert judged(3) == (3, 3)


def test_costs_are_of_the_rows_that_train_and_judge(plan_table):
    with_folds = plan_table(seeds=[0, 1])
    with_dev = plan_table(seeds=[0, 1], files=("train", "validation"), folds=None)
    of_folds, whole = (
        Estimates(planned).run_costs[planned.experiments["mine"][1].key].tokens
        for planned in (with_folds, with_dev)
    )
    # Two folds train on 10 rows and judge by 10; dev rows: 20 and 19.
    assert of_folds / whole == pytest.approx(20 / 39, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"seeds": [0, 1, 2]},
            "experiments.mine.folds: found 3 seeds for 2 folds, expected a multiple of 2",
        ),
        (
            {"files": ("train", "validation")},
            "experiments.mine.folds: not allowed with tasks.mood.files.validation",
        ),
        (
            {"rows": REVIEWS[:2]},
            "experiments.mine.folds: found 2, but the training set of task 'mood' has only 1 rows",
        ),
        (
            {"rows": [("same", "good"), ("same", "bad")] * 2},
            "experiments.mine.folds: found 2, but the training set of task 'mood' has only 1 diff",
        ),
        ({"folds": None}, "tasks.mood.files: 'validation' is missing, expected a path, or `folds`"),
        ({"folds": 1}, "experiments.mine.folds: found 1, expected"),
    ],
)
def test_a_mistake_with_folds_gets_one_line(plan_table, changes, said):
    with pytest.raises(SubtuneError) as refused:
        plan_table(**changes)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)

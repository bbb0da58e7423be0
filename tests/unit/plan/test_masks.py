"""Masks in a plan: the entries that a rule scores highest."""

import pytest

from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.plan.cost import Estimates, cost_table
from subtune.printing import plan_lines
from subtune.steps.context import plan_and_check
from tests.helpers.plans import BASE, config_of, own_task, plan

NORMS = ["encoder.layer.*.output.LayerNorm.*"]
RATES = {"learning_rates": [1e-3]}


def plan_masks(top, **experiment):
    """Plan one method `mine`, and return its runs."""
    settings = {"tasks": ["rte"], "methods": {"mine": [1e-3]}, "fractions": None}
    selections = {"mine": {"top": {"share": 0.1, "of": NORMS} | top}}
    return plan({"selections": selections}, **settings | experiment)


def runs_of(made):
    return made.experiments["layernorm"]


@pytest.fixture
def rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_rules.py"
    path.write_text("def mine(weight):\n    return weight\n")
    return path


def test_seeds_share_a_mask_unless_the_rule_draws_random_numbers():
    drawn = {}
    for by in ("gem", "random"):
        made = plan_masks({"by": by}, seeds=[0, 1, 2])
        drawn[by] = [mask.seed for mask in made.masks.values()]
        assert len({run.key for run in runs_of(made)}) == 3
    assert drawn == {"gem": [0], "random": [0, 1, 2]}


def test_a_change_of_the_file_is_another_mask(rule):
    first = plan_masks({"by": "my_rules.py:mine"})
    assert plan_masks({"by": "my_rules.py:mine"}).masks == first.masks
    rule.write_text(f"{rule.read_text()}# A comment.\n")
    assert plan_masks({"by": "my_rules.py:mine"}).masks.keys().isdisjoint(first.masks)


def test_the_key_is_known_before_the_entries_and_stays_afterwards():
    [run] = runs_of(plan_masks({"by": "gem"}, methods={"mine": "search"}))
    assert len(run.masks) == 2
    found = run.with_entries(lambda mask: f"entries of {mask}")
    assert found.key == run.key
    assert found.spec.selection.entries == f"entries of {run.masks[0].id}"
    assert found.search.run.selection.entries == f"entries of {run.masks[1].id}"
    assert found.spec.id != run.spec.id


def test_masks_with_the_same_entries_are_the_same_run():
    one, other = (runs_of(plan_masks({"by": by}))[0] for by in ("snip", "taylor"))
    assert one.key != other.key
    assert (
        one.with_entries(lambda mask: "same").spec == other.with_entries(lambda mask: "same").spec
    )


def test_a_rule_never_sees_the_examples_on_which_its_run_is_scored(tmp_path):
    rows = "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(20))
    tasks = {"mood": own_task(tmp_path, rows, splits=("train",))}
    selections = {"mine": {"top": {"share": 0.1, "of": NORMS, "by": "gradient"}}}
    settings = {"tasks": ["mood"], "methods": {"mine": "search"}, "fractions": None}
    made = plan({"tasks": tasks, "selections": selections}, folds=2, seeds=[0, 1], **settings)
    for run in runs_of(made):
        own, searched = run.masks
        assert own.samples[0].fold == run.spec.recipe.fold
        assert searched.samples[0].fold == run.search.run.recipe.fold
    # The weights are the same in all folds.
    selections["mine"]["top"]["by"] = "magnitude"
    made = plan({"tasks": tasks, "selections": selections}, folds=2, seeds=[0, 1], **settings)
    assert len(made.masks) == 1


def test_a_rule_sees_the_examples_of_a_smaller_training_set_only():
    made = plan_masks({"by": "gradient"}, train_rows=[8, "all"], seeds=[0, 1])
    samples = [
        (run.masks[0].samples[0].rows, run.masks[0].samples[0].seed) for run in runs_of(made)
    ]
    assert samples == [(8, 0), (8, 1), (None, 0), (None, 0)]


def test_only_what_rules_need_is_computed():
    made = plan_masks({"by": "magnitude"})
    assert not made.list_samples("gradient") and not made.list_samples("fisher")
    made = plan_masks({"by": "snip"})
    assert made.list_samples("gradient") and not made.list_samples("fisher")
    made = plan_masks({"by": "grasp"})
    assert [spec.derivative for spec in made.gradient_specs.values()] == ["hessian_gradient"]


def test_synflow_is_computed_once_for_all_folds_and_numbers_of_rows():
    made = plan_masks({"by": "synflow"}, train_rows=[8, "all"], seeds=[0, 1])
    [sample] = made.gradient_specs.values()
    assert (sample.derivative, sample.rows, sample.fold) == ("synflow_gradient", None, None)
    assert Estimates(made).fisher_cost(sample).tokens < 200


def test_a_product_with_the_hessian_costs_three_gradients():
    tokens = []
    for by in ("snip", "grasp"):
        made = plan_masks({"by": by})
        [sample] = made.gradient_specs.values()
        tokens.append(Estimates(made).fisher_cost(sample.replace(rows=8)).tokens)
    assert tokens[1] == 3 * tokens[0]


def test_the_scopes_are_those_of_fisher_information():
    scopes = {}
    for scope in ("individual", "global", "cv"):
        made = plan_masks({"by": "snip", "scope": scope}, tasks=["cola", "rte", "sst2"])
        scopes[scope] = [
            "".join(sample.tokens.data.task.name[0] for sample in run.masks[0].samples)
            for run in runs_of(made)
        ]
    assert scopes == {
        "individual": ["c", "r", "s"],
        "global": ["crs", "crs", "crs"],
        "cv": ["rs", "cs", "cr"],
    }


def test_a_rule_that_reads_no_examples_ranks_the_tensors_of_the_runs_head(rule):
    settings = {"tasks": ["rte", "ud_ewt"], "methods": {"mine": [1e-3], "mine by random": [1e-3]}}
    made = plan_masks({"by": "my_rules.py:mine", "scope": "global"}, **settings)
    heads = {
        (run.task_name, run.masks[0].samples[0].tokens.data.task.of_kind.head)
        for run in runs_of(made)
    }
    assert heads == {("ud_ewt", "token_classification"), ("rte", "sequence_classification")}


def test_fractions_hold_for_every_rule_and_those_by_fisher_information_have_their_own_ids():
    masks = {"values": [0.1, 0.5, 1.0], "scopes": ["individual"]}
    for by in ("fisher", "snip"):
        settings = {"fractions": masks | {"by": by}, "tasks": ["rte"], "methods": {"full": [1e-5]}}
        made = plan(**RATES, **settings)
        assert [run.fraction for run in runs_of(made)] == [None, 0.1, 0.5, 1.0]
        assert len(made.masks) == 2
        names = {"fisher": "layernorm", "snip": "layernorm by snip"}
        assert [run.method for run in runs_of(made)] == ["full", *[names[by]] * 3]
        are_known = [run.key == run.spec.id for run in runs_of(made)]
        assert are_known == [True, by == "fisher", by == "fisher", True]


TOP = {"share": 0.1, "of": NORMS, "by": "my_rules.py:mine"}
OTHER = TOP | {"by": "my_rules.py:other"}


@pytest.mark.parametrize(
    ("selections", "methods", "controls"),
    [
        ({"mine": TOP}, ["mine"], ["mine by random"]),
        ({"mine": TOP | {"by": "gem"}}, ["mine"], []),
        ({"mine": TOP, "other": OTHER}, ["mine", "other"], ["mine by random", "other by random"]),
        ({"mine": TOP}, ["mine", "mine by random"], []),
    ],
)
def test_a_rule_of_ones_own_gets_a_control_with_as_many_random_entries(
    rule, selections, methods, controls
):
    rule.write_text(f"{rule.read_text()}\n\ndef other(weight):\n    return -weight\n")
    rates = {name: [1e-3 * number] for number, name in enumerate(methods, 1)}
    data = {"selections": {name: {"top": top} for name, top in selections.items()}}
    experiment = {"tasks": ["rte", "sst2"], "methods": rates, "fractions": None}
    for by_model in (False, True):
        if by_model:
            experiment["methods"] = {"full": [1e-5]}
            experiment["by_model"] = {"minilm": {"methods": rates}}
        config = config_of(data, **experiment).with_random_controls()
        found = config.experiments["layernorm"].methods_for("minilm")
        found.pop("full", None)
        assert [*found] == [*methods, *controls]
        assert {name: found[name] for name in methods} == {n: tuple(r) for n, r in rates.items()}
        for control in controls:
            ranked = control.removesuffix(" by random")
            assert found[control] == found[ranked]
            top = config.selection(ranked).top
            assert config.selection(control).top == top.replace(by="random")


def test_controls_with_the_same_settings_are_the_same_runs(rule):
    rule.write_text(f"{rule.read_text()}\n\ndef other(weight):\n    return -weight\n")
    keys = {}
    for by in (TOP["by"], OTHER["by"]):
        made = plan_masks({"by": by}, methods={"mine by random": [1e-3]}, seeds=[0, 1])
        keys[by] = [run.key for run in runs_of(made)]
        assert [mask.top.by for mask in made.masks.values()] == ["random"] * 2
    assert keys[TOP["by"]] == keys[OTHER["by"]]


def test_a_method_with_another_rule_has_the_settings_of_the_method_or_its_own(rule):
    methods = {name: [1e-3] for name in ("mine", "mine by random", "mine by snip")}
    by_method = {"mine": {"epochs": 3, "train_rows": [8]}, "mine by snip": {"epochs": 5}}
    made = plan_masks({"by": TOP["by"]}, methods=methods, by_method=by_method)
    found = {(run.method, run.spec.recipe.epochs, run.spec.recipe.train_rows)
             for run in runs_of(made)}  # fmt: skip
    epochs = {"mine": 3, "mine by random": 3, "mine by snip": 5}
    assert found == {(name, n, rows) for name, n in epochs.items() for rows in (8, None)}


def test_a_control_that_is_named_for_all_models_is_not_added_for_one(rule):
    data = {"selections": {"mine": {"top": TOP}}}
    methods = {"mine": [1e-3], "mine by random": [5e-3]}
    by_model = {"minilm": {"methods": {"mine": [2e-3]}}}
    config = config_of(data, methods=methods, by_model=by_model, fractions=None)
    [experiment] = config.with_random_controls().experiments.values()
    assert experiment.methods_for("minilm") == {"mine": (2e-3,), "mine by random": (5e-3,)}


def test_controls_are_added_to_a_plan_that_names_them(rule):
    own = {"models": ["minilm"], "tasks": ["rte"], "methods": {"mine": [1e-3]}, "epochs": 2,
           "batch_size": 8}  # fmt: skip
    changed = {"selections": {"mine": {"top": TOP}}, "experiments": {"own": own}}
    context = plan_and_check(check_config(BASE | changed))
    assert [run.method for run in context.plan.experiments["own"]] == ["mine", "mine by random"]
    lines = "\n".join(plan_lines(cost_table(context.estimates, ()), context.estimates))
    assert "Controls, which train as many random entries: `mine by random`." in lines


def test_an_experiment_of_a_paper_gets_no_control(rule):
    data = {"selections": {"mine": {"top": TOP}}}
    experiment = {"methods": {"mine": [1e-3]}, "fractions": None, "paper": "layernorm"}
    config = config_of(data, **experiment)
    assert config.with_random_controls() == config


def test_fractions_by_a_rule_of_ones_own_get_a_control_outside_of_papers(rule):
    masks = {"values": [0.1, 0.5, 1.0], "scopes": ["individual", "global"], "by": TOP["by"]}
    every = [("layernorm by mine", share, scope)
             for scope in masks["scopes"] for share in masks["values"]]  # fmt: skip
    random = [("layernorm by random", share, "individual") for share in masks["values"]]
    for paper, expected in ((None, every + random), ("layernorm", every)):
        made = plan(fractions=masks, tasks=["rte", "sst2"], methods={"full": [1e-5]}, paper=paper,
                    **RATES)  # fmt: skip
        found = [(run.method, run.fraction, run.scope) for run in runs_of(made)
                 if run.scope and run.spec.tokens.data.task.name == "rte"]  # fmt: skip
        assert found == expected


def test_another_built_in_rule_of_a_selection_needs_no_selection(rule):
    data = {"selections": {"mine": {"top": TOP}}}
    config = config_of(data, methods={"mine by snip": [1e-3]}, fractions=None)
    assert config.selection("mine by snip").top.by == "snip"
    for name, said in {
        "mine by snap": "'mine by snap': found 'snap', expected one of .*mean 'snip'",
        "layernorm by snip": "only a selection `top` has a rule, unlike 'layernorm'",
        "mine by my_rules.py:mine": "found 'my_rules.py:mine', expected one of fisher",
    }.items():
        with pytest.raises(SubtuneError, match=said):
            config_of(data, methods={name: [1e-3]}, fractions=None)


def test_a_function_with_the_name_of_a_built_in_rule_cannot_rank_fractions(rule):
    rule.write_text("def random(weight):\n    return weight\n")
    masks = {"values": [0.1], "scopes": ["individual"], "by": "my_rules.py:random"}
    with pytest.raises(SubtuneError, match="found a function 'random', which is the name of a bu"):
        plan(fractions=masks, **RATES)


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ({"by": "gen"}, r"selections.mine.top.by: found 'gen', expected one of .*mean 'gem'"),
        ({"by": "my_rules.py:other"}, "selections.mine.top.by: my_rules.py: found 'other'"),
        ({"scope": "cv"}, "experiments.layernorm.methods.mine: found one task for 'cv', expected"),
        ({"count": 3}, "selections.mine.top.*expected exactly one of as_many_as, count, share"),
        ({"of": ["**.weigth"]}, r"'mine' of model .*pattern '\*\*.weigth' matches no parameter"),
        ({"of": ["encoder.layer.*.output.dens.weight"]}, "did you mean .*output.dense.weight'?"),
    ],
)
def test_a_mistake_gets_one_line_before_anything_is_trained(rule, top, said):
    with pytest.raises(SubtuneError, match=said):
        plan_masks(top)

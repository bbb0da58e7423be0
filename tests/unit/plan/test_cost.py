"""Costs of a configuration, from dimensions, sizes and assumptions."""

from dataclasses import asdict

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer

from subtune.config.checks import check_config
from subtune.config.schema import Pace
from subtune.core.errors import SubtuneError
from subtune.data import sources
from subtune.data.corpora import read_glue_rows
from subtune.data.load import load_rows, tokenize
from subtune.data.sources import task_size
from subtune.methods import METHODS
from subtune.methods.selection import TrainingCost
from subtune.models.dimensions import bytes_per_run, known_dimensions, papers_models
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.plan.cost import (
    TOTAL,
    Cost,
    Estimates,
    cost_table,
    find_pace,
)
from subtune.plan.plan import make_plan
from subtune.runs.spec import DataSpec, PlannedRun
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.tasks.task import TaskSize
from subtune.training.recipe import Run, train
from tests.helpers import examples
from tests.helpers.plans import plan_runs
from tests.helpers.project import ROOT


def estimates(data: dict) -> Estimates:
    return Estimates(make_plan(check_config(data)))


def papers(**changes) -> dict:
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    for experiment in data["experiments"].values():
        experiment |= changes
    return data


def bitfit(**changes) -> dict:
    """A paper with three models and the same number of epochs for all runs."""
    data = papers(**changes)
    data["experiments"] = {"bitfit": data["experiments"]["bitfit"]}
    return data


# As transformers counts them, without a classifier; RoBERTa's checkpoint has no pooler.
PRETRAINED = {
    "bert-base-cased": 108_310_272,
    "bert-large-cased": 333_579_264,
    "roberta-base": 124_055_040,
}


@pytest.mark.parametrize("name", papers_models())
def test_a_models_parameters_are_counted_without_it(name):
    assert known_dimensions(f"someone/{name}").parameters == PRETRAINED[name]


@pytest.mark.parametrize(
    ("method", "trains"),
    [
        ("frozen", TrainingCost.NOTHING),
        ("layernorm", TrainingCost.VECTORS),
        ("lora-II", TrainingCost.LOW_RANK),
        ("full", TrainingCost.MATRICES),
    ],
)
def test_a_training_steps_operations_are_counted_without_it(method, trains, minilm):
    """The count is compared with torch's own counter, in training and evaluation on a few rows."""
    assert METHODS[method].work() is trains
    task = TASKS["sst2"]
    model = load_encoder(minilm, SEQUENCE_CLASSIFICATION, 2)
    tokens = examples.tokens(task, minilm, rows=16, evaluation=4)
    rows = {split: Examples(tokens[split]) for split in ("train", "validation")}
    entries = METHODS[method].resolve(model.shapes, 0)
    with FlopCounterMode(display=False) as counter:
        train(model, rows, task, [Run(entries, examples.recipe(epochs=1), 0)])
    dimensions = known_dimensions(str(minilm))
    one = dimensions.forward_flops
    expected = trains.value * 16 * one(rows["train"].lengths.mean())
    expected += 4 * one(rows["validation"].lengths.mean())
    assert expected == pytest.approx(counter.get_total_flops(), rel=0.12)


@pytest.mark.parametrize("task", ["cola", "sst2", "mrpc", "stsb", "rte", "wnli"])
def test_glues_sizes_are_those_of_its_files(task, glue_dir, minilm):
    found = sources.official_files(str(glue_dir), TASKS[task], "tsv")
    rows = {
        split: [row for _, row in read_glue_rows(TASKS[task], path, split not in TASKS[task].test)]
        for split, path in found.items()
    }
    size = TASKS[task].size
    assert size.train_rows == len(rows["train"])
    assert size.evaluation_rows == sum(len(rows[split]) for split in TASKS[task].evaluation)
    assert size.total_rows == sum(map(len, rows.values()))
    # Every n-th row, because STS-B's rows are ordered by source.
    some = rows["train"][:: len(rows["train"]) // 400 or 1]
    texts = [[row[column] for row in some] for column in TASKS[task].text]
    ids = AutoTokenizer.from_pretrained(minilm)(*texts)["input_ids"]
    assert size.tokens == pytest.approx(sum(map(len, ids)) / len(ids), rel=0.2)


@pytest.mark.parametrize("task", ["rte", "ud_ewt", "squad"])
def test_a_mini_tasks_size_is_counted(task, minilm):
    size = task_size(TASKS[task], "builtin", {})
    assert (size.train_rows, size.evaluation_rows, size.total_rows) == (200, 100, 340)
    rows = load_rows(DataSpec(task=TASKS[task], source="builtin", version="1"))
    ids = tokenize(TASKS[task], rows, minilm, 256)["train"]["input_ids"]
    # A punctuation mark is a word with one token.
    assert size.tokens == pytest.approx(sum(map(len, ids)) / len(ids), rel=0.35)


@pytest.mark.parametrize("device", ["H200", "CPU core"])
def test_a_devices_pace_agrees_with_its_measured_steps(device):
    measured = yaml.safe_load((ROOT / "tests" / "unit" / "plan" / "steps.yaml").read_text())
    paces = estimates(bitfit() | {"assumptions": {"device": device}}).paces
    for trains, layers, width, runs, texts, tokens, milliseconds in measured[device]:
        flops = runs * tokens * layers * (24 * width**2 + 4 * width * tokens / texts)
        pace = paces[trains]
        found = pace.per_layer * layers + 1e3 * pace.per_teraflop * flops / 1e12
        assert 1 / 2 < found / milliseconds < 2


def test_a_kind_that_was_not_measured_counts_like_the_most_similar():
    vectors = {"vectors": Pace(per_layer=2, per_teraflop=4)}
    assert find_pace(vectors, "evaluation") == Pace(per_layer=1, per_teraflop=2)
    # Entries of matrices cost what matrices cost.
    paces = vectors | {"matrices": Pace(per_layer=0, per_teraflop=35)}
    assert find_pace(paces, "entries").per_teraflop == pytest.approx(35, rel=0.05)


def test_a_device_without_measured_steps_is_refused():
    with pytest.raises(SubtuneError, match=r"assumptions\.device: found 'my GPU', expected one of"):
        _ = estimates(bitfit() | {"assumptions": {"device": "my GPU"}}).paces


@pytest.fixture(scope="module")
def three_seeds():
    """The costs of the papers' configuration with three seeds."""
    return estimates(papers(seeds=[0, 1, 2], precision="bf16"))


def test_papers_with_three_seeds_are_a_few_hundred_jobs(three_seeds):
    found, plan = three_seeds, three_seeds.plan
    assert 100 < len(plan.sweeps) < 600
    assert all(4_000 < found.job_memory(sweep[0].spec) < 64_000 for sweep in plan.sweeps.values())


def test_short_jobs_ask_for_little_time():
    found = estimates(bitfit())
    hours = [found.job_minutes(Cost(seconds=3600 * hours)) / 60 for hours in (0.1, 1, 9, 40)]
    assert hours == pytest.approx([0.4, 2.2, 4, 10], abs=0.1)


# Of each setting, what never costs less than what stands before it.
MORE = {
    "model": ["minilm", "bert-base-cased", "bert-large-cased"],
    "method": ["frozen", "bitfit", "full"],
    "rows": range(1, 10**6),
    "epochs": range(1, 100),
    "tokens": range(5, 512),
    "runs": range(1, 20),
}


def cost_of(model, method, rows, epochs, tokens, runs, assumptions) -> dict[str, float]:
    """Return every amount that is estimated of a sweep of runs that differ in learning rates."""
    rates = [1e-5 * (number + 1) for number in range(runs)]
    spec = examples.run_spec(METHODS[method], epochs=epochs, batch_size=16)
    spec = spec.replace(tokens=spec.tokens.replace(tokenizer=spec.model.id, max_length=512))
    planned = [
        PlannedRun(
            spec=spec.with_learning_rate(rate),
            model_name=model,
            method=method,
            train_rows=rows,
            seed=0,
        )
        for rate in rates
    ]
    size = TaskSize(train_rows=rows, evaluation_rows=100, test_rows=0, tokens=tokens)
    made = plan_runs({"mine": planned}, size, model, assumptions=assumptions, runs_per_job=100)
    # One job, whatever its size.
    made.__dict__["sweeps"] = {"sweep": planned}
    [sweep] = made.sweeps
    found = Estimates(made)
    cost = found.sweep_cost(sweep)
    # Attempts by themselves are limited to the longest job's hours.
    attempts = sum(min(found.job_minutes(cost) * 2**attempt, 24 * 60) for attempt in range(4))
    assert attempts > min(cost.seconds / 60, 24 * 60)
    return asdict(cost) | {"memory": found.job_memory(spec), "minutes": found.job_minutes(cost)}


@given(
    usual=st.fixed_dictionaries({name: st.sampled_from(of) for name, of in MORE.items()}),
    name=st.sampled_from([*MORE]),
    device=st.sampled_from(["H100", "A100", "CPU core"]),
    data=st.data(),
)
def test_more_of_anything_never_costs_less(usual, name, device, data, minilm):
    """More rows, epochs, tokens and runs, a larger model, and more that trains."""
    later = MORE[name][MORE[name].index(usual[name]) :]
    more = usual | {name: data.draw(st.sampled_from(later))}

    def cost(of):
        model = str(minilm) if of["model"] == "minilm" else of["model"]
        return cost_of(**of | {"model": model}, assumptions={"device": device})

    less, cost_of_more = cost(usual), cost(more)
    # Sums may round.
    lower = {of: amount for of, amount in less.items() if cost_of_more[of] < amount * (1 - 1e-9)}
    assert not lower, cost_of_more


def seconds_of_a_run(methods, seeds=(0,), device="H100") -> float:
    """Return the estimated time of the first run of BERT-base on RTE."""
    settings = {"models": ["bert-base-cased"], "tasks": ["rte"], "by_model": {}, "seeds": seeds}
    data = bitfit(**settings, methods=methods) | {"assumptions": {"device": device}}
    return next(iter(estimates(data).run_costs.values())).seconds


def test_runs_side_by_side_take_less_time():
    two = seconds_of_a_run({"bitfit": [1e-4, 1e-3]})
    assert two < 0.8 * seconds_of_a_run({"bitfit": [1e-4]})
    # Runs of different seeds share no steps.
    assert two == seconds_of_a_run({"bitfit": [1e-4, 1e-3]}, seeds=[0, 1])


@pytest.mark.parametrize(("device", "saves"), [("H100", True), ("CPU core", False)])
def test_learning_rates_of_full_share_steps_on_a_gpu(device, saves):
    one, two = (
        seconds_of_a_run({"full": rates}, device=device) for rates in ([1e-5], [1e-5, 2e-5])
    )
    assert (two < 0.95 * one) is saves


def test_a_gpu_captures_the_steps_that_runs_share_once():
    """Captures took an H200 2.1 to 2.9 seconds for eight runs of BERT-base on CoLA."""
    of_steps = {"matrices": {"per_layer": 0, "per_teraflop": 0}}

    def seconds(device, runs):
        assumptions = {"device": device, "pace": of_steps, "start_minutes": 0}
        return cost_of("bert-base-cased", "full", 2000, 3, 14, runs, assumptions)["seconds"]

    assert seconds("my core", 8) == 0
    assert seconds("mine", 8) == pytest.approx(seconds("mine", 1)) == pytest.approx(2.9, rel=0.1)


def test_memory_of_a_run_grows_with_what_trains_and_with_tokens():
    base, large = map(known_dimensions, ("bert-base-cased", "bert-large-cased"))
    trained = large.parameters
    # Measured: 8 runs with matrices took 13 GB, 32 runs of vectors on 1,042 tokens 25 GB.
    assert 8 * bytes_per_run(base, 256, base.parameters) == pytest.approx(13e9, rel=0.8)
    assert 32 * bytes_per_run(base, 1042, 0) == pytest.approx(25e9, rel=0.2)
    assert bytes_per_run(large, 256, trained) - bytes_per_run(large, 256, 0) == 24 * trained


@pytest.mark.parametrize(("paper", "runs"), [(None, 4), ("bitfit", 3)])
def test_a_search_costs_four_runs_once_for_all_seeds(paper, runs):
    """Where dev rows score the search, one of its runs is the first seed's."""
    settings = {"methods": {"bitfit": "search"}, "by_model": {}, "models": ["bert-base-cased"]}
    made = estimates(bitfit(**settings, tasks=["cola"], seeds=[0, 1], paper=paper))
    [job], [first, second] = made.plan.search_jobs, made.run_costs.values()
    assert made.search_cost(job).flops == pytest.approx(runs * first.flops)
    assert first == second


def test_a_long_context_costs_as_many_examples_as_it_has_windows():
    tokens = []
    for max_length in (384, 96):
        experiment = papers()["experiments"]["bitfit_squad"] | {"max_length": max_length}
        found = estimates({"experiments": {"e": experiment}})
        tokens.append(next(iter(found.run_costs.values())).tokens)
    # 176 tokens are one window, or two of 96 tokens.
    assert tokens[1] == pytest.approx(2 * 96 / 176 * tokens[0])


def test_what_papers_share_is_counted_once(three_seeds):
    table = cost_table(three_seeds, {"layernorm"}).set_index("experiment")
    parts, every = table.drop(TOTAL), table.loc[TOTAL]
    assert every["runs"] < parts["runs"].sum()
    assert every["hours"] < parts["hours"].sum()
    # One model has Fisher information of 8 tasks; each model predicts all its test rows in one job.
    assert every["jobs"] == every["sweeps"] + 8 + (1 + 3 + 1 + 1 + 1 + 1 + 1) + 1

"""Training steps as graphs. A CPU's own graphs stand for CUDA's."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from subtune.core.process import StoppedError
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.packing import PackedBatch
from subtune.models.peft import inject_peft
from subtune.tasks import TASKS
from subtune.training import recipe
from subtune.training.checkpoints import Checkpoints, CheckpointStore
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import train
from subtune.training.training_step import Graphs
from tests.helpers import examples
from tests.helpers.peft_types import selection_of
from tests.unit.training import recorded_graphs
from tests.unit.training.results import assert_same, facts_of, in_double, loaded, member

RATES = [0.5, 0.25]
RUNS = len(RATES)


def batch_of(*ids):
    """Return a batch of one text with these tokens."""
    zero, tokens = torch.zeros(1, dtype=torch.int64), torch.tensor(ids)
    return PackedBatch(
        ids=tokens,
        token_type_ids=None,
        positions=torch.arange(len(ids)),
        example=torch.zeros_like(tokens),
        starts=zero,
        reads=None,
        read_of=zero,
        labels=zero,
        buckets=(),
        examples=1,
        longest=len(ids),
    )


class Sums:
    """A step that adds to each run's sum: its rate times all tokens. ``calls`` counts the step."""

    def __init__(self):
        self.calls, self.sums = 0, torch.zeros(RUNS)

    def step(self, batches, rates):
        self.calls += 1
        for batch in batches:
            self.sums += torch.stack([*rates]) * batch.ids.sum()


@pytest.fixture
def made(monkeypatch):
    """All graphs of the test."""
    return recorded_graphs.stand_in(monkeypatch)


@pytest.fixture
def sums():
    return Sums()


@pytest.fixture
def lines():
    return []


@pytest.fixture
def graphs(made, lines):
    return Graphs(RUNS, [recorded_graphs.Generator()], lines.append)


def test_a_shape_is_stepped_then_captured_then_replayed(graphs, made, sums):
    counts = []
    for _ in range(4):
        graphs.take_step(sums.step, [batch_of(1, 2)], RATES)
        counts.append((sums.calls, len(made), sum(graph.replays for graph in made)))
    assert counts == [(1, 0, 0), (2, 1, 1), (2, 1, 2), (2, 1, 3)]
    assert sums.sums.tolist() == [4 * 3 * rate for rate in RATES]


def test_a_step_of_several_batches_is_one_graph(graphs, made, sums):
    for _ in range(3):
        graphs.take_step(sums.step, [batch_of(1), batch_of(2, 3)], RATES)
    assert [graph.replays for graph in made] == [2]
    assert sums.sums.tolist() == [3 * 6 * rate for rate in RATES]


TASK = TASKS["sst2"]
# Most shapes return. 12 rows make two batches and a smaller one.
SETTINGS = {"batch_size": 5, "epochs": 8}


def test_fewer_runs_have_graphs_of_their_own(graphs, made):
    fewer, moved = graphs.recreate(1), torch.zeros(1)
    for rate in (1.0, 2.0, 3.0):
        fewer.take_step(lambda batches, rates: moved.add_(rates[0]), [batch_of(1)], [rate])
    assert moved.item() == 6 and [graph.replays for graph in made] == [2]


class Reads(Sums):
    """A step that reads a value, which a capture does not permit."""

    def step(self, batches, rates):
        super().step(batches, rates)
        float(self.sums[0])


def test_fewer_runs_do_not_try_again_what_cannot_be_captured(graphs, lines, made):
    reads = Reads()
    for _ in range(2):
        graphs.take_step(reads.step, [batch_of(1)], RATES)
    fewer = graphs.recreate(RUNS)
    for _ in range(3):
        fewer.take_step(reads.step, [batch_of(1)], RATES)
    assert len(lines) == len(made) == 1


def test_a_capture_without_memory_is_an_error(graphs, lines):
    def step(batches, rates):
        if recorded_graphs.is_captured():
            raise torch.OutOfMemoryError("out of memory")

    graphs.take_step(step, [batch_of(1)], RATES)
    with pytest.raises(torch.OutOfMemoryError):
        graphs.take_step(step, [batch_of(1)], RATES)
    assert not lines


def with_dropout(model):
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    return in_double(model)


@pytest.fixture
def double(tiny_bert, monkeypatch):
    """A BERT in float64 with dropout, which trains with batches as on a GPU."""
    recorded_graphs.train_with_batches_of_a_gpu(monkeypatch)
    return with_dropout(load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, TASK.outputs))


@pytest.fixture
def through_graphs(made, monkeypatch):
    """A function that trains with graphs, as `train` does, and checks that they are replayed."""

    def trained(*arguments, **options):
        before = len(made)
        with monkeypatch.context() as patched:
            recorded_graphs.train_with_graphs(patched)
            results = train(*arguments, **options)
        assert sum(graph.replays for graph in made[before:]) > 5
        return results

    return trained


def members_of(model, kind, *, patience=None, **recipe):
    """Return three runs, of which the second may end early."""
    settings = SETTINGS | {"weight_decay": 0.1, "max_grad_norm": 0.1} | recipe
    return [
        member(kind, model, learning_rate=1e-3, **settings),
        member(kind, model, learning_rate=3e-3, **settings, patience=patience),
        member(kind, model, learning_rate=1e-2, **settings),
    ]


CASES = [("bert", "sst2", kind) for kind in ("layernorm", "top", "rand_row_col", "lora-II", "full")]
CASES += [("bert", task, "layernorm") for task in ("stsb", "ud_ewt", "squad", "toxic")]
# Families that run transformers' code.
THEIRS = ("modernbert", "distilbert", "deberta-v2", "gpt2", "qwen2")
CASES += [(family, "sst2", "layernorm") for family in THEIRS]


@pytest.mark.parametrize("runs", [pytest.param(1, marks=pytest.mark.nightly), 3])
@pytest.mark.parametrize(("family", "task", "kind"), CASES)
def test_training_through_graphs_is_training_to_the_last_bit(
    family, task, kind, runs, directory, monkeypatch, through_graphs
):
    recorded_graphs.train_with_batches_of_a_gpu(monkeypatch)
    task = examples.TASKS[task]
    model, rows = loaded(task, directory)
    model = with_dropout(model) if family == "bert" else model
    group = members_of(model, kind)[:runs]
    assert_same(through_graphs(model, rows, task, group), train(model, rows, task, group))


@pytest.mark.parametrize(
    "of_type",
    [
        "LORA",
        *(pytest.param(of_type, marks=pytest.mark.nightly) for of_type in ("IA3", "VERA")),
        "PREFIX_TUNING",
    ],
)
def test_modules_of_peft_train_through_graphs(of_type, double, rows, tiny_bert, through_graphs):
    selection = selection_of(of_type, "bert")
    model = inject_peft(load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2), selection.peft, 0)
    entries = selection.resolve(model.shapes, 0)
    group = [replace(one, entries=entries) for one in members_of(model, "frozen")]
    assert_same(through_graphs(model, rows, TASK, group), train(model, rows, TASK, group))


@pytest.mark.parametrize("kind", ["bitfit", "full"])
def test_runs_that_end_early_leave_the_others_their_graphs(kind, double, rows, through_graphs):
    constant = {"schedule": "constant", "warmup": 0.0}
    group = members_of(double, kind, patience=1, **constant)
    group.append(member(kind, double, learning_rate=1e38, **SETTINGS, **constant))
    expected = train(double, rows, TASK, group)
    epochs = [len(result.history) for result in expected]
    assert epochs[0] == epochs[2] == 8 and epochs[1] < 8 and epochs[3] < 8
    assert [result.diverged for result in expected] == [False, False, False, True]
    found = through_graphs(double, rows, TASK, group)
    assert_same(found[:3], expected[:3])
    assert str(facts_of(found[3])) == str(facts_of(expected[3]))


@pytest.mark.parametrize("kind", ["layernorm", "full"])
def test_training_through_graphs_goes_on_from_a_checkpoint(
    kind, double, rows, through_graphs, tmp_path
):
    group = members_of(double, kind)
    expected = train(double, rows, TASK, group)
    steps = []

    def stopping():
        steps.append(None)
        return "a test" if len(steps) == 12 else None

    keeper = CheckpointStore(Checkpoints(tmp_path, 3600, stopping), [*"abc"], print)
    with pytest.raises(StoppedError):
        through_graphs(double, rows, TASK, group, keeper=keeper)
    assert_same(through_graphs(double, rows, TASK, group, keeper=keeper), expected)


def test_dropout_of_a_new_seed_after_another_device_is_in_the_graphs(
    double, rows, through_graphs, tmp_path, lines
):
    group = members_of(double, "layernorm")
    keeper = CheckpointStore(Checkpoints(tmp_path, 3600, lambda: "a test"), [*"abc"], print)
    with pytest.raises(StoppedError):
        train(double, rows, TASK, group, keeper=keeper)
    states = keeper.read_newest()
    states[0]["masks"][0]["device"] = "another"
    elsewhere = SimpleNamespace(
        read_newest=lambda: copy.deepcopy(states), write_if_due=lambda take: None
    )
    found = through_graphs(double, rows, TASK, group, lines.append, elsewhere)
    assert not any("CUDA graphs are not used" in line for line in lines)
    assert_same(found, train(double, rows, TASK, group, keeper=elsewhere))


def test_training_goes_on_without_graphs_if_a_step_reads_a_value(
    double, rows, made, monkeypatch, lines
):
    group = members_of(double, "layernorm", patience=1, schedule="constant")
    expected = train(double, rows, TASK, group)
    compute = recipe.compute_logits

    def reading(*arguments):
        predicted = compute(*arguments)
        assert predicted.sum().item() < 1e9
        return predicted

    monkeypatch.setattr(recipe, "compute_logits", reading)
    recorded_graphs.train_with_graphs(monkeypatch)
    assert_same(train(double, rows, TASK, group, lines.append), expected)
    assert len(made) == 1
    [line] = [line for line in lines if "CUDA graphs are not used" in line]
    assert recorded_graphs.PERMITTED in line


def test_runs_whose_graph_does_not_fit_train_in_halves(double, rows, made, monkeypatch, lines):
    every = [*members_of(double, "bitfit"), member("layernorm", double, **SETTINGS)]
    expected = train(double, rows, TASK, every)
    compute = recipe.compute_logits

    def greedy(model, batch, weights, masks):
        runs = len(weights["classifier.bias"].values)
        if runs > 2 and recorded_graphs.is_captured():
            raise torch.OutOfMemoryError("out of memory")
        return compute(model, batch, weights, masks)

    monkeypatch.setattr(recipe, "compute_logits", greedy)
    recorded_graphs.train_with_graphs(monkeypatch)
    found = [*train_side_by_side(double, rows, TASK, every, lambda *said: lines.append(said[0]))]
    assert (
        "4 runs side by side do not fit into memory, so they are split into groups of 2 and 2"
        in lines
    )
    for run, result in zip(found, expected, strict=True):
        torch.testing.assert_close(run.delta, result.delta, rtol=1e-10, atol=1e-12)

"""Training on a GPU, compared with training on a CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.core.process import StoppedError
from subtune.models.encoder import Encoder, load_encoder, with_new_classifier
from subtune.models.families import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION
from subtune.models.forward import jagged_attention
from subtune.models.packing import pack_batch
from subtune.models.peft import inject_peft
from subtune.runs.spec import ModelSpec
from subtune.tasks import TASKS
from subtune.training import embeddings, recipe
from subtune.training.checkpoints import Checkpoints, CheckpointStore
from subtune.training.evaluation import autocast
from subtune.training.fisher_information import fisher_information
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import Run, train
from subtune.training.training_step import Graphs
from tests.helpers import examples
from tests.helpers.families import dropout_fields
from tests.helpers.peft_types import selection_of
from tests.helpers.reference import slopes_with_dropout
from tests.unit.training.results import assert_close_values, loaded, member

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]

GPU = torch.device("cuda")
# A GPU adds products in another order.
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
# The norm of all differences after 20 steps, relative to that of all values. Runs that mix, or
# other dropout, change values a hundred times as much or more.
CLOSE_VALUES = 1e-5
KINDS = ["layernorm", "bitfit", "lora-II", "top", "rand_uniform", "rand_row_col", "full"]
# 12 rows make 3 batches. Most of their shapes return in 7 epochs.
SETTINGS = {"epochs": 7}


def with_dropout(model: Encoder, p: float = 0.1, of_attention: float = 0.1) -> Encoder:
    model.config.hidden_dropout_prob = p
    model.config.attention_probs_dropout_prob = of_attention
    return model


def trained(model, rows, members, task="sst2", **options):
    results = train(model, rows, TASKS[task], members, **options)
    return [result.delta for result in results]


@pytest.fixture
def unscored(rows):
    """Rows to train on alone: the last epoch is the best."""
    return {"train": rows["train"]}


def members_of(kind, model):
    """Return two runs of a kind, with their own rates, and with weight decay and clipping."""
    settings = {"weight_decay": 0.1, "max_grad_norm": 0.1, **SETTINGS}
    return [member(kind, model, learning_rate=rate, **settings) for rate in (1e-3, 5e-4)]


def with_modules(of_type, tiny_bert):
    """Return a model on a GPU with PEFT's modules, and two runs that train them."""
    selection = selection_of(of_type, "bert")
    model = load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2).to(GPU)
    model = inject_peft(model, selection.peft, 0)
    entries = selection.resolve(model.shapes, 0)
    return model, [replace(one, entries=entries) for one in members_of("frozen", model)]


def listed_in(lines):
    """A report that adds lines to a list."""
    return lambda line, *name: lines.append(line)


def assert_same_values(found, expected):
    """Check that the stored deltas of runs are equal to a GPU's rounding."""
    for one, other in zip(found, expected, strict=True):
        assert_close_values(one, other, within=CLOSE_VALUES)


@pytest.fixture
def replays(monkeypatch):
    """A list with an entry for each step that is a replay of a graph."""
    found, replay = [], torch.cuda.CUDAGraph.replay

    def counted(graph):
        found.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    return found


@pytest.fixture
def without_graphs(monkeypatch):
    """A function that trains with a GPU's batches, but takes every step anew."""

    def train_anew(*arguments, **options):
        with monkeypatch.context() as patched:
            patched.setattr(Graphs, "_capture", lambda *arguments: None)
            return trained(*arguments, **options)

    return train_anew


@pytest.mark.parametrize(
    ("family", "kind", "dropout"),
    [
        *(("bert", kind, 0.0) for kind in KINDS),
        *(("bert", kind, 0.1) for kind in ("layernorm", "full")),
        *((family, "layernorm", 0.0) for family in ("modernbert", "distilbert", "deberta-v2")),
        *((family, "full", 0.0) for family in ("modernbert", "gpt2")),
        ("qwen2", "layernorm", 0.0),
    ],
)
def test_steps_of_a_graph_are_the_steps_without_it(
    family, kind, dropout, directory, replays, without_graphs
):
    model, rows = loaded(TASKS["sst2"], directory)
    if dropout:
        with_dropout(model)
    model, unscored = model.to(GPU), {"train": rows["train"]}
    members = members_of(kind, model)
    found = trained(model, unscored, members)
    assert len(replays) > 5
    assert_same_values(found, without_graphs(model, unscored, members))


@pytest.mark.parametrize("of_type, is_captured", [("LORA", True), ("PREFIX_TUNING", False)])
def test_steps_of_peft_in_a_graph_are_the_steps_without_it(
    of_type, is_captured, tiny_bert, unscored, replays, without_graphs
):
    model, members = with_modules(of_type, tiny_bert)
    found = trained(model, unscored, members)
    assert (len(replays) > 5) is is_captured
    assert_same_values(found, without_graphs(model, unscored, members))


@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2"])
def test_on_a_gpu_the_gradient_is_that_of_the_loss_with_the_same_dropout(
    family, copied, directory_of
):
    directory = copied(family, **dropout_fields(directory_of(family), 0.3))
    model, rows = loaded(TASKS["sst2"], directory)
    model = with_new_classifier(model.to(GPU), 0)
    packed = pack_batch(rows["train"], np.arange(12), model, True)
    with autocast(GPU, "fp32"):
        found, expected = slopes_with_dropout(model, packed)
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_jagged_attention_drops_the_same_weights_in_both_passes(dtype):
    """Attention is linear in its values, so its product with itself is its slope."""
    generator = torch.Generator(GPU).manual_seed(0)
    query, key, value = torch.randn(3, 2, 90, 64, device=GPU, generator=generator).to(dtype)
    value.requires_grad_()
    starts = torch.tensor([0, 7, 27, 60], device=GPU)
    found = jagged_attention(query, key, value, 2, starts, 33, 0.3)
    [gradient] = torch.autograd.grad(found, value, found.detach())
    slope = (gradient.double() * value.double()).sum()
    torch.testing.assert_close(slope, found.double().square().sum(), rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("family", "kind", "dropout"),
    [
        *(("bert", kind, 0.0) for kind in KINDS),
        *(("bert", kind, 0.1) for kind in ("layernorm", "lora-II", "full")),
        ("modernbert", "layernorm", 0.1),
    ],
)
def test_on_a_gpu_runs_side_by_side_are_the_runs_alone(family, kind, dropout, directory):
    """Without dropout of attention, which draws its own masks for each run."""
    model, rows = loaded(TASKS["sst2"], directory)
    model = with_dropout(model, dropout, of_attention=0.0).to(GPU)
    rows, members = {"train": rows["train"]}, members_of(kind, model)
    alone = [trained(model, rows, [one])[0] for one in members]
    assert_same_values(trained(model, rows, members), alone)


BOTH = ("layernorm", "full")


@pytest.mark.parametrize(
    ("family", "task", "head", "kind"),
    [
        *(("bert", "sst2", "", kind) for kind in KINDS),
        *(("bert", task, "", kind) for task in ("stsb", "ud_ewt") for kind in BOTH),
        *((of, "rte", "", kind) for of in ("bert", "modernbert", "gpt2") for kind in BOTH),
        *(
            (of, "sst2", MEAN_CLASSIFICATION, kind)
            for of in ("bert", "modernbert")
            for kind in BOTH
        ),
    ],
)
def test_a_gpu_trains_what_a_cpu_trains(family, task, head, kind, directory):
    model, rows = loaded(TASKS[task], directory, head)
    one = member(kind, model, learning_rate=1e-3)
    [expected] = trained(model, rows, [one], task)
    [found] = trained(model.to(GPU), rows, [one], task)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("kind", ["layernorm", "full"])
def test_a_gpu_has_the_losses_of_a_cpu_on_questions(kind, tiny_bert):
    """Adding a number to all logits changes no loss, so rounding decides how such biases move."""
    model, rows = loaded(TASKS["squad"], tiny_bert)
    one = member(kind, model, learning_rate=1e-3, **SETTINGS)
    losses = [
        [row["train_loss"] for row in train(there, rows, TASKS["squad"], [one])[0].history]
        for there in (model.to(GPU), model)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("of_type", ["LORA", "IA3", "VERA", "PREFIX_TUNING"])
def test_a_gpu_trains_what_a_cpu_trains_in_modules_of_peft(of_type, tiny_bert, rows):
    model = load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    selection = selection_of(of_type, "bert")
    deltas = []
    for device in (torch.device("cpu"), GPU):
        there = inject_peft(model.to(device), selection.peft, 0)
        entries = selection.resolve(there.shapes, 0)
        one = Run(entries, examples.recipe(learning_rate=1e-3), 0)
        deltas += trained(there, rows, [one])
    torch.testing.assert_close(deltas[1], deltas[0], **CLOSE)


@pytest.mark.parametrize("kinds", [("bitfit", "top"), ("lora-II",), ("full", "full")], ids=" ".join)
def test_on_a_gpu_training_goes_on_from_a_checkpoint(kinds, model, rows, tmp_path):
    model = with_dropout(model).to(GPU)
    members = [member(kind, model, learning_rate=1e-3, **SETTINGS) for kind in kinds]
    expected = trained(model, rows, members)
    occasions = iter(range(1, 100))
    # After the twelfth step of 21.
    stopped = Checkpoints(tmp_path, 3600, lambda: "a test" if next(occasions) == 15 else None)
    keeper = CheckpointStore(stopped, [*"ab"[: len(kinds)]], print)
    with pytest.raises(StoppedError):
        train(model, rows, TASKS["sst2"], members, keeper=keeper)
    assert keeper.read_newest()[0]["masks"][0]["device"] == GPU.type
    assert_same_values(trained(model, rows, members, keeper=keeper), expected)


@pytest.mark.parametrize("kind", ["bitfit", "full"])
def test_on_a_gpu_a_run_that_ends_early_leaves_the_others_as_they_are(kind, model, rows):
    model = model.to(GPU)
    settings = {**SETTINGS, "schedule": "constant", "warmup": 0.0}
    patient, diverging, other = [
        member(kind, model, **settings, learning_rate=rate, patience=patience)
        for rate, patience in ((1e-4, 1), (1e38, None), (1e-3, None))
    ]
    lines = []
    found = train(model, rows, TASKS["sst2"], [patient, diverging, other], lines.append)
    assert [len(result.history) < 7 for result in found] == [True, True, False]
    assert [result.diverged for result in found] == [False, True, False]
    assert not any("without CUDA graphs" in line for line in lines)
    for result, one in ((found[0], patient), (found[2], other)):
        [alone] = train(model, rows, TASKS["sst2"], [one])
        assert (len(result.history), result.best_epoch) == (len(alone.history), alone.best_epoch)
        assert_same_values([result.delta], [alone.delta])


@pytest.mark.parametrize("in_full", [False, True], ids=["sums of matrices", "their entries"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_fisher_information_is_the_same_on_a_gpu(family, in_full, directory):
    task = TASKS["rte"]
    tokens = examples.tokens(task, directory)["train"]
    model = load_encoder(directory, SEQUENCE_CLASSIFICATION, task.outputs)
    asked = {"in_full": model.parameters if in_full else ()}
    expected = fisher_information(model, tokens, task, **asked)
    found = fisher_information(model.to(GPU), tokens, task, **asked)
    for name, information in expected.entries.items():
        rounding = 1e-9 + 1e-6 * information.max()
        np.testing.assert_allclose(found.entries[name], information, rtol=1e-3, atol=rounding)
    sums = [of.sums["information"] for of in (found, expected)]
    np.testing.assert_allclose(*sums, rtol=1e-3)


def test_embeddings_are_the_same_on_a_gpu(model, tokens):
    spec = ModelSpec(source="files", version="1").replace(pooling="mean")
    rows = examples.Examples(tokens["train"], embeddings.pooled_tokens(spec, model))
    every = np.arange(len(rows))
    found = embeddings.compute_features(model.to(GPU), rows, every)
    np.testing.assert_allclose(found, embeddings.compute_features(model, rows, every), atol=1e-5)


def test_padding_is_not_seen_on_a_gpu_after_training_with_short_products(directory_of):
    model, rows = loaded(TASKS["sst2"], directory_of("modernbert"))
    lines = []
    for _ in range(2):
        one = [member("layernorm", model, precision="tf32")]
        list(train_side_by_side(model.to(GPU), rows, TASKS["sst2"], one, listed_in(lines)))
    assert not any("padding" in line for line in lines)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_short_products_on_a_gpu_learn_what_long_ones_learn(precision, model, rows):
    results = [
        train(model.to(GPU), rows, TASKS["sst2"], [member("layernorm", model, precision=p)])[0]
        for p in ("fp32", precision)
    ]
    losses = [[row["train_loss"] for row in result.history] for result in results]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize("only_captures", [False, True], ids=["in a step", "in a capture"])
def test_runs_that_do_not_fit_into_a_gpu_train_in_smaller_groups(
    only_captures, model, rows, monkeypatch
):
    model = model.to(GPU)
    rates = (2e-4, 4e-4, 6e-4, 8e-4)
    members = [member("bitfit", model, learning_rate=rate, **SETTINGS) for rate in rates]
    expected = trained(model, rows, members)
    compute = recipe.compute_logits

    def greedy(frozen, batch, weights, masks):
        runs = len(weights["classifier.bias"].values)
        if runs > 2 and (not only_captures or torch.cuda.is_current_stream_capturing()):
            torch.empty(1 << 45, device=GPU)
        return compute(frozen, batch, weights, masks)

    monkeypatch.setattr(recipe, "compute_logits", greedy)
    lines = []
    found = list(train_side_by_side(model, rows, TASKS["sst2"], members, listed_in(lines)))
    assert (
        "4 runs side by side do not fit into memory, so they are split into groups of 2 and 2"
        in lines
    )
    assert_same_values([run.delta for run in found], expected)


@pytest.mark.slow
def test_on_a_gpu_compiled_operations_train_what_the_plain_ones_train(
    model, unscored, monkeypatch, replays
):
    """Compiling takes up to half a minute."""
    model = with_dropout(model).to(GPU)
    members = members_of("layernorm", model)
    expected = trained(model, unscored, members)
    monkeypatch.setattr(recipe, "TOKENS_WORTH_COMPILING", 0)
    replays.clear()
    found = trained(model, unscored, members)
    assert len(replays) > 5
    assert_same_values(found, expected)

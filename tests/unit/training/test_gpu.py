"""Training on a GPU, compared with training on a CPU."""

import numpy as np
import pytest
import torch

from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.encoder import Encoder, load_model, shapes_of
from subtune.models.injected import injected
from subtune.selections.specs import ModelSpec
from subtune.tasks import TASKS
from subtune.training import embeddings, recipe
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.fisher import fisher_information
from subtune.training.recipe import Member, train
from subtune.training.sweeps import train_sweep
from subtune.training.values import to_stored
from tests.helpers import examples
from tests.helpers.peft_types import selection_of
from tests.unit.training.results import member

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")

GPU = torch.device("cuda")
# A GPU adds products in another order.
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def with_dropout(model: Encoder) -> Encoder:
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    return model


def trained(model, rows, members, task="sst2", **options):
    results = train(model, rows, TASKS[task], members, **options)
    return [to_stored(result.best.delta) for result in results]


@pytest.mark.parametrize("task", ["sst2", "stsb", "rte"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2"])
@pytest.mark.parametrize("kind", ["layernorm", "top", "rand_row_col", "lora-II", "full"])
def test_a_gpu_trains_what_a_cpu_trains(kind, family, task, directory):
    if family != "bert" and kind == "top":
        pytest.skip("the mask is over BERT's LayerNorm")
    model = load_model(directory, SEQUENCE_CLASSIFICATION, TASKS[task].outputs)
    rows = examples.examples_of(TASKS[task], examples.tokens(TASKS[task], directory))
    one = member(kind, model, learning_rate=1e-3)
    [expected] = trained(model, rows, [one], task)
    [found] = trained(model.to(GPU), rows, [one], task)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("of_type", ["LORA", "IA3", "VERA", "PREFIX_TUNING"])
def test_a_gpu_trains_what_a_cpu_trains_in_modules_of_peft(of_type, tiny_bert, rows):
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    selection = selection_of(of_type, "bert")
    deltas = []
    for device in (torch.device("cpu"), GPU):
        there = injected(model.to(device), selection.peft, 0)
        entries = selection.resolve(shapes_of(there), 0)
        one = Member(entries, examples.recipe(learning_rate=1e-3), 0)
        deltas += trained(there, rows, [one])
    torch.testing.assert_close(deltas[1], deltas[0], **CLOSE)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("kinds", [("layernorm", "layernorm"), ("lora-II", "lora-II", "lora-II")])
def test_on_a_gpu_a_run_beside_others_is_the_run_alone(kinds, family, directory):
    model = with_dropout(load_model(directory, SEQUENCE_CLASSIFICATION, 2)).to(GPU)
    rows = examples.examples_of(TASKS["sst2"], examples.tokens(TASKS["sst2"], directory))
    members = [member(kind, model, learning_rate=1e-3 * n) for n, kind in enumerate(kinds, 1)]
    together = trained(model, rows, members)
    alone = [trained(model, rows, [one])[0] for one in members]
    torch.testing.assert_close(together, alone, **CLOSE)


@pytest.mark.parametrize("kinds", [("bitfit", "top"), ("lora-II",), ("full",)], ids=" ".join)
def test_on_a_gpu_training_goes_on_from_a_checkpoint(kinds, model, rows, tmp_path):
    model = with_dropout(model).to(GPU)
    members = [member(kind, model, learning_rate=1e-3) for kind in kinds]
    expected = trained(model, rows, members)
    keeper = Keeper(Checkpoints(tmp_path, 0), [*"ab"[: len(kinds)]], print)
    trained(model, rows, members, keeper=keeper)
    for run in "ab"[: len(kinds)]:
        [*_, last] = sorted(tmp_path.glob(f"{run}/*"))
        last.unlink()
    again = Keeper(Checkpoints(tmp_path, 0), [*"ab"[: len(kinds)]], print)
    assert again.newest()[0]["masks"][0]["device"] == "cuda"
    torch.testing.assert_close(trained(model, rows, members, keeper=again), expected, **CLOSE)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_fisher_information_is_the_same_on_a_gpu(family, directory):
    task = TASKS["rte"]
    tokens = examples.tokens(task, directory)["train"]
    model = load_model(directory, SEQUENCE_CLASSIFICATION, task.outputs)
    expected = fisher_information(model, tokens, task)
    found = fisher_information(model.to(GPU), tokens, task)
    for name, information in expected.entries.items():
        np.testing.assert_allclose(found.entries[name], information, rtol=1e-3, atol=1e-9)
    sums = [of.sums["information"] for of in (found, expected)]
    np.testing.assert_allclose(*sums, rtol=1e-3)


def test_embeddings_are_the_same_on_a_gpu(model, tokens):
    spec = ModelSpec(source="files", version="1").replaced(pooling="mean")
    rows = examples.Examples(tokens["train"], embeddings.tokens_pooled(spec, model))
    every = np.arange(len(rows))
    found = embeddings.features(model.to(GPU), rows, every)
    np.testing.assert_allclose(found, embeddings.features(model, rows, every), atol=1e-5)


def test_padding_is_not_seen_on_a_gpu_after_training_with_short_products(directory_of):
    model = load_model(directory_of("modernbert"), SEQUENCE_CLASSIFICATION, 2).to(GPU)
    tokens = examples.tokens(TASKS["sst2"], directory_of("modernbert"))
    rows = examples.examples_of(TASKS["sst2"], tokens)
    lines = []
    for _ in range(2):
        one = {"a": member("layernorm", model, precision="tf32")}
        list(train_sweep(model, rows, TASKS["sst2"], one, lambda *told: lines.append(told[0])))
    assert not any("padding" in line for line in lines)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_short_products_on_a_gpu_learn_what_long_ones_learn(precision, model, rows):
    results = [
        train(model.to(GPU), rows, TASKS["sst2"], [member("layernorm", model, precision=p)])[0]
        for p in ("fp32", precision)
    ]
    losses = [[row["train_loss"] for row in result.history] for result in results]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_runs_that_do_not_fit_into_a_gpu_train_in_smaller_groups(model, rows, monkeypatch):
    model = model.to(GPU)
    members = [member("bitfit", model, learning_rate=1e-3 * n) for n in (1, 2, 3, 4)]
    expected = trained(model, rows, members)
    compute = recipe.logits

    def greedy(frozen, batch, weights, masks):
        size = max(len(getattr(w, "values", [1])) for w in weights.values())
        if size > 2:
            torch.empty(1 << 45, device=GPU)
        return compute(frozen, batch, weights, masks)

    monkeypatch.setattr(recipe, "logits", greedy)
    by_name = dict(zip("abcd", members, strict=True))
    found = dict(train_sweep(model, rows, TASKS["sst2"], by_name, lambda *told: None))
    deltas = [to_stored(found[name].best.delta) for name in by_name]
    torch.testing.assert_close(deltas, expected, **CLOSE)

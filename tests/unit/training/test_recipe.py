"""Training, compared with plain loops, and values that it must not change."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.methods.roles import is_key_bias
from subtune.methods.selection import Indices
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.packing import pack_batch
from subtune.tasks import TASKS
from subtune.tasks.examples import shuffled_batches, sort_by_length
from subtune.training.evaluation import compute_split_logits
from subtune.training.recipe import Run, train
from subtune.training.training_step import learning_rate_at
from subtune.training.values import changed_tensors
from tests.helpers import examples
from tests.unit.training.results import CLOSE, member

TASK = TASKS["sst2"]


def train_alone(model, rows, member):
    [result] = train(model, rows, TASK, [member])
    return result


def values_after(model, result):
    return model.parameters | changed_tensors(model.parameters, result.delta)


KINDS = ["full", "bitfit", "layernorm", "random", "rand_row_col", "top", "lora-II", "frozen"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_selected_entries_alone_change_and_predict_the_record(kind, weight_decay, model, rows):
    pretrained = {name: value.clone() for name, value in model.parameters.items()}
    one = member(kind, model, weight_decay=weight_decay)
    result = train_alone(model, rows, one)
    assert all(torch.equal(model.parameters[name], pretrained[name]) for name in pretrained)
    changed = changed_tensors(model.parameters, result.delta)
    assert changed.keys() == one.entries.keys() == result.changes.keys()
    for name, (change, size) in result.changes.items():
        difference = values_after(model, result)[name] - pretrained[name]
        assert (change, size) == (pytest.approx(difference.abs().mean().item()), difference.numel())
    for name, values in values_after(model, result).items():
        same = (values == model.parameters[name]).flatten()
        if name not in one.entries:
            assert same.all(), name
        elif isinstance(one.entries[name], Indices):
            inside = one.entries[name].flat
            outside = np.setdiff1d(np.arange(values.numel()), inside)
            assert same[outside].all(), name
            may_stay = "embeddings" in name or is_key_bias(name)
            assert may_stay or not same[inside].all(), name
    trained = Encoder(model.config, values_after(model, result), model.head)
    [predictions] = compute_split_logits(trained, rows["validation"], "fp32")
    np.testing.assert_allclose(result.best.predictions["validation"], predictions, **CLOSE)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["full", "bitfit", "b_k", "rand_bias"])
def test_a_keys_bias_never_moves_whoever_trains_it(kind, precision, model, rows):
    one = member(kind, model, precision=precision)
    after = values_after(model, train_alone(model, rows, one))
    keys = [name for name in one.entries if name.endswith("key.bias")]
    assert keys
    for name in keys:
        assert torch.equal(after[name], model.parameters[name]), name


def test_a_keys_bias_decays_as_every_weight_that_trains(model, rows):
    name = "encoder.layer.1.attention.self.key.bias"
    model.parameters[name].copy_(torch.linspace(-1, 1, 32))
    settings = {"schedule": "constant", "warmup": 0.0, "epochs": 1}
    one = member("bitfit", model, weight_decay=0.1, learning_rate=1e-2, **settings)
    after = values_after(model, train_alone(model, rows, one))
    torch.testing.assert_close(after[name], model.parameters[name] * (1 - 1e-3) ** 3)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_words_of_no_training_text_change_by_weight_decay_alone(weight_decay, model, rows):
    settings = {"schedule": "constant", "warmup": 0.0, "train_rows": 4}
    one = member("full", model, weight_decay=weight_decay, **settings)
    result = train_alone(model, rows, one)
    assert result.trainable == sum(value.numel() for value in model.parameters.values())
    chosen = np.random.default_rng(one.seed).permutation(len(rows["train"].row_indices))[:4]
    read = np.concatenate([rows["train"].inputs["input_ids"][number] for number in chosen])
    words = "embeddings.word_embeddings.weight"
    same = (values_after(model, result)[words] == model.parameters[words]).all(1)
    assert not same[read].any()
    # Row 0, of padding, is 0.
    unread = np.setdiff1d(np.arange(1, len(same)), read)
    assert same[unread].all() if not weight_decay else not same[unread].any()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_full_ends_where_autocast_and_torchs_adamw_end(precision, weight_decay, model, rows):
    """The loop trains whole tables, and casts every matrix in every step."""
    settings = {"schedule": "constant", "warmup": 0.0, "learning_rate": 1e-3}
    one = member("full", model, precision=precision, weight_decay=weight_decay, **settings)
    leaves = {
        name: torch.nn.Parameter(value.clone())
        for name, value in with_new_classifier(model, one.seed).parameters.items()
    }
    optimizer = torch.optim.AdamW(leaves.values(), lr=1e-3, weight_decay=weight_decay)
    order = np.random.default_rng(one.seed)
    chosen = order.permutation(len(rows["train"].row_indices))
    for _ in range(one.recipe.epochs):
        for batch in shuffled_batches(len(chosen), one.recipe.batch_size, order):
            packed = pack_batch(
                rows["train"], sort_by_length(chosen[batch], rows["train"].lengths), model
            )
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                [predicted] = compute_logits(model, packed, leaves)
            torch.nn.functional.cross_entropy(predicted.float(), packed.labels).backward()
            torch.nn.utils.clip_grad_norm_(leaves.values(), one.recipe.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
    # Without scores, the last epoch is the best.
    found = values_after(model, train_alone(model, {"train": rows["train"]}, one))
    expected = {name: leaf.detach() for name, leaf in leaves.items()}
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_a_run_ends_when_its_patience_does_and_the_others_go_on(model, rows):
    # On its training rows, one of the runs soon scores better.
    rows = {"train": rows["train"], "validation": rows["train"]}
    settings = {"epochs": 12, "schedule": "constant"}
    rates, patience, ends = (1e-2, 3e-3), 3, []
    members = [
        member("full", model, learning_rate=rate, patience=patience, **settings) for rate in rates
    ]
    for one, result in zip(members, train(model, rows, TASK, members), strict=True):
        whole = train_alone(model, rows, replace(one, recipe=one.recipe.replace(patience=None)))
        scores = [row["validation/accuracy"] for row in whole.history]
        assert whole.best_epoch == scores.index(max(scores)) + 1 and len(scores) == 12
        bests = [scores.index(max(scores[:epoch])) + 1 for epoch in range(1, 13)]
        # The first epoch that is `patience` epochs behind the best one is the last.
        ends.append(next(n for n, best in enumerate(bests, 1) if n in (12, best + patience)))
        assert len(result.history) == ends[-1]
        assert result.best_epoch == bests[ends[-1] - 1]
        assert not result.diverged
    assert ends[1] < ends[0] < 12


@pytest.mark.fault(
    "numbers",
    "a loss or prediction is not finite",
    "the run is recorded as diverged and never chosen; others continue",
)
def test_a_run_whose_loss_is_not_finite_ends_and_the_others_go_on(model, rows):
    reports = []
    settings = {"schedule": "constant", "warmup": 0.0, "epochs": 4}
    members = [
        replace(member("bitfit", model, learning_rate=rate, **settings), name=name)
        for rate, name in ((3e-3, "a"), (1e38, "b"), (1e-3, "c"))
    ]
    results = train(model, rows, TASK, members, reports.append)
    assert [len(result.history) < 4 for result in results] == [False, True, False]
    assert [result.diverged for result in results] == [False, True, False]
    assert [line[0] for line in reports if "is not finite" in line] == ["b"]
    for place in (0, 2):
        alone = values_after(model, train_alone(model, rows, members[place]))
        beside = values_after(model, results[place])
        torch.testing.assert_close(beside, alone, rtol=1e-4, atol=2e-5)


def test_one_parameter_and_the_classifier_can_train(model, rows):
    whole = {n: e for n, e in examples.entries_of("full", model).items() if n.startswith("class")}
    name = "encoder.layer.1.output.LayerNorm.bias"
    one = Run({name: Indices(np.array([3])), **whole}, examples.recipe(), 0)
    result = train_alone(model, rows, one)
    assert result.trainable == 1 + 66
    [changed] = result.delta[name].tolist()
    assert changed != model.parameters[name][3]


def test_the_learning_rate_warms_up_and_falls_to_zero():
    recipe = examples.recipe(learning_rate=1.0, warmup=0.2)
    rates = [learning_rate_at(step, 10, recipe) for step in range(10)]
    assert rates == pytest.approx([0, 0.5, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    constant = examples.recipe(learning_rate=1.0, warmup=0.0, schedule="constant")
    assert {learning_rate_at(step, 10, constant) for step in range(10)} == {1.0}

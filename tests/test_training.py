"""Training against plain loops, and what it must leave untouched."""

import numpy as np
import pytest
import torch

from subtune.methods import METHODS
from subtune.models import encoder
from subtune.models.dropout import dropout
from subtune.selection import CLASSIFIER, resolve
from subtune.specs import Ranked, Top
from subtune.tasks import TASKS
from subtune.training.batches import in_length_order, shuffled, split_by_length
from subtune.training.delta import INDEX_SUFFIX, apply
from subtune.training.recipe import learning_rate_at, predict, train
from subtune.training.sweeps import Member, train_sweep
from subtune.training.trainable import bound
from tests import examples


@pytest.fixture
def model(tiny_bert):
    return encoder.load(tiny_bert, 2)


@pytest.fixture(scope="module")
def task():
    return TASKS["sst2"]


@pytest.fixture
def rows(task, tiny_bert):
    return examples.rows_of(task, examples.tokens(task, tiny_bert))


def shapes(model):
    return {name: tuple(p.shape) for name, p in encoder.canonical_parameters(model).items()}


def snapshot(model):
    parameters = encoder.canonical_parameters(model)
    return {name: p.detach().clone() for name, p in parameters.items()}


def top(model, fraction):
    """A mask over LayerNorm in which every third entry comes first."""
    names = [name for name in shapes(model) if ".output.LayerNorm." in name]
    flat = np.arange(len(names) * 32)
    rank = np.argsort(np.argsort((flat * 7) % len(flat), kind="stable")).astype(np.int32)
    ranks = dict(zip(names, np.split(rank, len(names)), strict=True))
    return resolve(Top(top=Ranked(ranking="r", fraction=fraction)), shapes(model), 0, ranks)


def entries_of(kind, model):
    return top(model, 0.3) if kind == "top" else resolve(METHODS[kind], shapes(model), 0)


def reference(model, rows, entries, recipe, seed):
    """Dense AdamW on every parameter; gradients outside the selection are set to zero."""
    torch.manual_seed(seed)
    encoder.reset_classifier(model, seed)
    parameters = encoder.canonical_parameters(model)
    masks = {}
    for name, parameter in parameters.items():
        mask = torch.zeros(parameter.numel())
        if name in entries:
            mask[slice(None) if entries[name] is None else torch.from_numpy(entries[name])] = 1
        masks[name] = mask.view(parameter.shape)
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(parameters.values(), lr=recipe.learning_rate, weight_decay=0)
    order = np.random.default_rng(seed)
    chosen = order.permutation(len(rows["train"]))
    steps = -(-len(chosen) // recipe.batch_size) * recipe.epochs
    step = 0
    model.eval()
    for _ in range(recipe.epochs):
        permutation = order.permutation(len(chosen))
        for start in range(0, len(chosen), recipe.batch_size):
            index = chosen[permutation[start : start + recipe.batch_size]]
            logits = model(rows["train"].batch(index, torch.device("cpu")))
            labels = torch.from_numpy(rows["train"].labels[index]).long()
            torch.nn.functional.cross_entropy(logits, labels).backward()
            for name, parameter in parameters.items():
                if parameter.grad is not None:
                    parameter.grad *= masks[name]
            torch.nn.utils.clip_grad_norm_(parameters.values(), recipe.max_grad_norm)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_at(step, steps, recipe)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
    return {name: p.detach().clone() for name, p in parameters.items()}


@pytest.mark.parametrize("kind", ["full", "bitfit", "layernorm", "random", "top"])
def test_every_selection_trains_as_a_dense_masked_loop_does(kind, model, task, rows, tiny_bert):
    entries = entries_of(kind, model)
    recipe = examples.recipe(epochs=1, learning_rate=3e-3)
    result = train(model, rows, task, entries, recipe, seed=3)
    apply(model, result.delta)
    trained = snapshot(model)
    expected = reference(encoder.load(tiny_bert, 2), rows, entries, recipe, seed=3)
    for name, values in expected.items():
        # Adam divides by the gradient's size, so that rounding of a zero gradient is magnified.
        if "key.bias" not in name:
            torch.testing.assert_close(trained[name], values, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["bitfit", "layernorm", "random", "top"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_entries_outside_the_selection_stay_bit_identical(kind, weight_decay, model, task, rows):
    before = snapshot(model)
    entries = entries_of(kind, model)
    recipe = examples.recipe(weight_decay=weight_decay)
    result = train(model, rows, task, entries, recipe, seed=0)
    apply(model, result.delta)
    for name, values in snapshot(model).items():
        same = (values == before[name]).flatten()
        if name not in entries:
            assert same.all(), name
        elif entries[name] is not None:
            outside = np.setdiff1d(np.arange(values.numel()), entries[name])
            assert same[outside].all(), name
            assert not same[entries[name]].all() or "embeddings" in name, name


@pytest.mark.parametrize("kind", ["full", "random", "lora-I"])
def test_the_model_comes_back_unchanged(kind, model, task, rows):
    before = snapshot(model)
    train(model, rows, task, entries_of(kind, model), examples.recipe(), seed=0)
    after = snapshot(model)
    assert all((after[name] == before[name]).all() for name in before if name not in CLASSIFIER)
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("kind", ["full", "random", "rand_row_col", "lora-II", "frozen"])
def test_a_delta_gives_the_predictions_of_the_record(kind, model, task, rows):
    result = train(model, rows, task, entries_of(kind, model), examples.recipe(), seed=0)
    apply(model, result.delta)
    logits = predict(model, rows["validation"], examples.recipe())
    assert (logits == result.logits["validation"]).all()


def test_a_delta_holds_the_selected_entries_only(model, task, rows):
    result = train(model, rows, task, top(model, 0.3), examples.recipe(), seed=0)
    values = {k: v for k, v in result.delta.items() if not k.endswith(INDEX_SUFFIX)}
    assert sum(v.numel() for v in values.values()) == result.trainable
    assert result.trainable == 77 + 66  # ⌈0.3·256⌉ of all LayerNorms, and the classifier


def test_a_run_is_reproducible_by_its_seed_and_does_not_depend_on_its_sweep(model, task, rows):
    recipe = examples.recipe()
    members = [
        Member(entries_of("layernorm", model), recipe, 0),
        Member(entries_of("bitfit", model), recipe, 0),
        Member(entries_of("layernorm", model), recipe, 1),
    ]

    def losses(chosen):
        results = train_sweep(model, rows, task, chosen, lambda line: None)
        return [[row["train_loss"] for row in result.history] for result in results]

    together = losses(members)
    assert together[0] != together[2]
    assert losses(members[::-1]) == together[::-1]
    assert losses(members[1:2]) == together[1:2]


def test_the_best_epoch_is_the_first_with_the_highest_dev_score(model, task, rows):
    result = train(model, rows, task, entries_of("full", model), examples.recipe(epochs=4), seed=0)
    scores = [row["validation/accuracy"] for row in result.history]
    assert len(scores) == 4
    assert result.best_epoch == scores.index(max(scores)) + 1
    assert result.scores["validation"]["accuracy"] == max(scores)


def test_a_regression_learns_real_scores(tiny_bert):
    task = TASKS["stsb"]
    rows = examples.rows_of(task, examples.tokens(task, tiny_bert))
    model = encoder.load(tiny_bert, 1)
    entries = entries_of("full", model)
    result = train(model, rows, task, entries, examples.recipe(epochs=6), seed=0)
    assert set(result.scores["validation"]) == {"spearmanr", "pearsonr"}
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"] / 2


def test_a_run_whose_loss_is_not_finite_ends_and_still_has_a_result(model, task, rows):
    lines = []
    recipe = examples.recipe(learning_rate=1e30, schedule="constant", warmup=0.0, epochs=5)
    result = train(model, rows, task, entries_of("full", model), recipe, 0, lines.append)
    assert len(result.history) < 5
    assert "no longer finite" in lines[-1]


def test_changes_are_the_mean_absolute_difference_over_the_whole_tensor(model, task, rows):
    before = snapshot(model)
    result = train(model, rows, task, top(model, 0.3), examples.recipe(), seed=0)
    apply(model, result.delta)
    name = "encoder.layer.0.output.LayerNorm.weight"
    change, size = result.changes[name]
    expected = (snapshot(model)[name] - before[name]).abs().mean().item()
    assert (change, size) == (pytest.approx(expected), 32)


def test_low_rank_updates_have_the_gradients_of_the_matrices_they_stand_for(model):
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 6, 3, 0]])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    model.eval()
    pretrained = model(batch)
    entries = {n: e for n, e in entries_of("lora-II", model).items() if n not in CLASSIFIER}
    with bound(model, entries, seed=3) as parts:
        assert (model(batch) == pretrained).all()
        for part in parts:
            torch.nn.init.normal_(part.up, std=0.1)
        model(batch).square().sum().backward()
    dense = {f"backbone.{p.name}": p.pretrained + p.scale * p.up @ p.down for p in parts}
    logits = torch.func.functional_call(model, dense, (batch,))
    leaves = [leaf for part in parts for leaf in part.leaves]
    expected = torch.autograd.grad(logits.square().sum(), leaves)
    for leaf, gradient in zip(leaves, expected, strict=True):
        torch.testing.assert_close(leaf.grad, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer", [torch.nn.Linear(4, 5), torch.nn.Embedding(6, 4)])
def test_gathered_gradients_are_those_of_the_whole_matrix(layer, tiny_bert):
    model = encoder.load(tiny_bert, 2).eval()
    kind = "attention.self.query" if isinstance(layer, torch.nn.Linear) else "word_embeddings"
    name = next(n for n in shapes(model) if kind in n and n.endswith("weight"))
    index = np.array([0, 5, 33, 70, 100, 200, 350, 512])
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 6, 3, 0]])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    with bound(model, {name: index}, seed=0) as [part]:
        model(batch).square().sum().backward()
        gathered = part.values.grad.clone()
    parameter = encoder.canonical_parameters(model)[name]
    parameter.requires_grad_(True)
    model(batch).square().sum().backward()
    torch.testing.assert_close(gathered, parameter.grad.flatten()[index])


def test_an_epoch_holds_every_example_once():
    batches = shuffled(10, 4, np.random.default_rng(0))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(np.concatenate(batches)) == list(range(10))


def test_a_batch_is_split_where_that_saves_more_padding_than_a_pass_costs():
    lengths = np.array([5, 100, 5, 100, 5])
    parts = split_by_length(np.arange(5), lengths, overhead=50)
    assert [sorted(part) for part in parts] == [[1, 3], [0, 2, 4]]
    assert len(split_by_length(np.arange(5), lengths, overhead=500)) == 1


def test_splitting_a_batch_does_not_change_what_is_learnt(model, task, rows, monkeypatch):
    entries = entries_of("layernorm", model)
    split = train(model, rows, task, entries, examples.recipe(), seed=0)
    monkeypatch.setattr(
        "subtune.training.recipe.split_by_length", lambda index, lengths: [np.sort(index)]
    )
    whole = train(model, rows, task, entries, examples.recipe(), seed=0)
    assert split.logits["validation"] == pytest.approx(whole.logits["validation"], abs=1e-4)


def test_evaluation_batches_hold_every_example_once_and_are_bounded():
    lengths = np.random.default_rng(0).integers(1, 60, 200)
    batches = list(in_length_order(lengths, tokens=300))
    assert sorted(np.concatenate(batches)) == list(range(200))
    assert max(len(batch) * lengths[batch].max() for batch in batches) <= 300


def test_the_learning_rate_warms_up_and_falls_to_zero():
    recipe = examples.recipe(learning_rate=1.0, warmup=0.2)
    rates = [learning_rate_at(step, 10, recipe) for step in range(10)]
    assert rates == pytest.approx([0, 0.5, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    constant = examples.recipe(learning_rate=1.0, warmup=0.0, schedule="constant")
    assert {learning_rate_at(step, 10, constant) for step in range(10)} == {1.0}


def test_dropout_keeps_its_share_scales_the_rest_and_is_off_in_evaluation():
    torch.manual_seed(0)
    x = torch.ones(1000, 1001)
    dropped = dropout(x, 0.1, training=True)
    zeros = (dropped == 0).double().mean().item()
    # Five standard deviations of a share of 1,001,000 draws.
    assert zeros == pytest.approx(0.1, abs=5 * (0.1 * 0.9 / x.numel()) ** 0.5)
    assert dropped.max().item() == pytest.approx(1 / 0.9)
    assert dropout(x, 0.1, training=False) is x

"""Fisher information, compared with a loop written from Eq. 2 of the LayerNorm paper."""

import copy
import itertools

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional
from transformers.activations import ACT2FN

from subtune.data.subsets import find_others
from subtune.methods.rules import choose_entries
from subtune.models import encoder
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs.spec import FOLD_VERSION, Fold
from subtune.tasks.examples import Examples
from subtune.training import fisher_information as module
from subtune.training import gradients
from subtune.training.evaluation import autocast
from subtune.training.fisher_information import fisher_information, prepare_examples
from subtune.training.gradients import (
    hessian_times_gradient,
    mean_gradient,
    synflow_gradient,
)
from subtune.training.training_set import draw_training_indices
from tests.helpers import examples, reference
from tests.helpers.families import FIELDS
from tests.unit.training.results import in_double

TASK = examples.TASKS["sst2"]


@pytest.fixture
def tokens(tokens):
    return tokens["train"]


def loop(model, tokens, task, seed=0, power=2):
    """Eq. 2: the mean over examples of the squared gradient of log p(y|x), by transformers.

    With the ``power`` 1, it is the mean of the gradients of −log p(y|x).
    """
    start = model.parameters | encoder.draw_classifier(model, seed)
    leaves = {name: value.clone().requires_grad_(True) for name, value in start.items()}
    config = copy.deepcopy(model.config)
    config.num_labels = task.outputs
    theirs = reference.CLASSES[model.head].from_config(config, attn_implementation="eager").eval()
    own = {
        model.exported_name(name): leaf.mT if model.is_transposed(name) else leaf
        for name, leaf in leaves.items()
    }
    total = {name: np.zeros(leaf.shape) for name, leaf in leaves.items()}
    for row in tokens:
        inputs = {n: [row[n]] for n in ("input_ids", "token_type_ids") if n in row}
        outputs = torch.func.functional_call(theirs, own, kwargs=reference.padded(inputs))
        if model.averages_logits:
            outputs.logits = outputs.logits.mean(1)
        match task.kind:
            case "regression":
                nats = 0.5 * (row["label"] - outputs.logits[0, 0]) ** 2
            case "multilabel":
                is_so = 2 * torch.tensor(row["label"]) - 1
                nats = -functional.logsigmoid(is_so * outputs.logits[0]).sum()
            case "classification":
                nats = -outputs.logits[0].log_softmax(0)[row["label"]]
            case "tokens":
                of_words = outputs.logits[0, row["reads"]].log_softmax(1)
                nats = -sum(of_words[number, word] for number, word in enumerate(row["label"]))
            case "span":
                both = zip((outputs.start_logits, outputs.end_logits), row["label"], strict=True)
                nats = -sum(logits[0].log_softmax(0)[place] for logits, place in both)
        if isinstance(nats, torch.Tensor):
            found = torch.autograd.grad(nats, [*leaves.values()], allow_unused=True)
            for name, gradient in zip(leaves, found, strict=True):
                if gradient is not None:
                    total[name] += gradient.double().numpy() ** power / len(tokens)
    return total


def matrices(model):
    return [n for n, value in model.parameters.items() if value.ndim > 1]


def assert_agrees(estimate, expected, rtol=1e-3):
    # Gradients are float32; those of key biases are zero up to the loop's rounding.
    nothing = 1e-12 * max(values.max() for values in expected.values())
    for name, values in estimate.entries.items():
        np.testing.assert_allclose(values, expected[name], rtol=rtol, atol=nothing)
    for _, row in estimate.sums.iterrows():
        information = expected[row["parameter"]].sum()
        assert row["information"] == pytest.approx(information, rel=rtol / 10, abs=1e-9), row[
            "parameter"
        ]


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_in_float64_it_is_the_loops_for_several_labels(family, directory):
    task = examples.TASKS["toxic"]
    tokens = examples.tokens(task, directory)["train"]
    model = in_double(load_encoder(directory, task.of_kind.head, task.outputs))
    estimate = fisher_information(model, tokens, task, in_full=matrices(model))
    assert_agrees(estimate, loop(model, tokens, task), rtol=1e-6)


PACKED = ("bert", "roberta")
CASES = [
    *itertools.product(PACKED, ["sst2", "mnli", "stsb", "ud_ewt", "squad", "toxic"]),
    *((family, "sst2") for family in FIELDS),
    ("electra", "toxic"),
    *((family, "ud_ewt") for family in ("modernbert", "qwen2")),
]


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_it_agrees_with_the_loop_for_the_mean_of_all_tokens(family, directory):
    tokens = examples.tokens(TASK, directory, rows=6)["train"]
    model = load_encoder(directory, TASK.of_kind.head, TASK.outputs, "mean")
    assert_agrees(fisher_information(model, tokens, TASK), loop(model, tokens, TASK))


@pytest.mark.parametrize(("family", "task"), CASES)
def test_it_agrees_with_the_loop_for_all_families_and_kinds_of_task(family, task, directory):
    task = examples.TASKS[task]
    tokens = examples.tokens(task, directory, rows=12 if family in PACKED else 4)["train"]
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    expected = loop(model, tokens, task)
    complete = fisher_information(model, tokens, task, in_full=matrices(model))
    assert list(complete.entries) == list(model.parameters)
    assert_agrees(complete, expected)
    if family in PACKED:
        assert_agrees(fisher_information(model, tokens, task), expected)


@pytest.mark.parametrize(("family", "task"), [*CASES, ("fnet", "sst2")])
def test_the_gradient_is_the_mean_of_the_gradients_of_all_examples(family, task, directory):
    task = examples.TASKS[task]
    tokens = examples.tokens(task, directory, rows=4)["train"]
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    found = mean_gradient(model, tokens, task, [*model.parameters])
    expected = loop(model, tokens, task, power=1)
    # The gradient of a bias to which the loss is invariant is 0, up to rounding.
    nothing = 1e-5 * max(np.abs(values).max() for values in expected.values())
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-3, atol=nothing)


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "sst2"), ("bert", "stsb"), ("roberta", "mnli"), ("gpt2", "sst2")]
)
def test_the_product_with_the_hessian_is_that_of_two_backward_passes(family, task, directory):
    """GraSP's Eq. 8, for which the loss of transformers is differentiated twice."""
    task = examples.TASKS[task]
    tokens = examples.tokens(task, directory, rows=4)["train"]
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    names = [n for n in model.parameters if n.endswith(("dense.weight", "c_fc.weight"))]
    found = hessian_times_gradient(model, tokens, task, names)
    temperature = 1 if task.kind == "regression" else 200
    loss, leaves = mean_loss(model, tokens, task, names, temperature)
    gradients = torch.autograd.grad(loss, leaves, create_graph=True)
    product = sum((g * g.detach()).sum() for g in gradients)
    expected = torch.autograd.grad(product, leaves)
    for name, values in zip(names, expected, strict=True):
        largest = values.abs().max().item()
        np.testing.assert_allclose(found[name], values.numpy(), rtol=0, atol=2e-3 * largest)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("bert", {"hidden_act": "linear"}),
        ("roberta", {"hidden_act": "linear"}),
        ("distilbert", {"activation": "linear"}),
        ("gpt2", {"activation_function": "linear"}),
        ("qwen2", {"hidden_act": "linear"}),
    ],
)
def test_synflows_gradient_is_that_of_a_linear_network_of_absolute_values(
    family, fields, directory, monkeypatch
):
    model = load_encoder(directory, TASK.of_kind.head, TASK.outputs)
    found = synflow_gradient(model, [*model.parameters])
    start = model.parameters | encoder.draw_classifier(model, seed=0)
    config = copy.deepcopy(model.config)
    config.num_labels = TASK.outputs
    for name, value in fields.items():
        assert getattr(config, name) != value
        setattr(config, name, value)
    theirs = reference.CLASSES[model.head].from_config(config).eval()
    own = {
        model.exported_name(name): (value.mT if model.is_transposed(name) else value).abs()
        for name, value in start.items()
    }
    theirs.load_state_dict(own, strict=False)
    # The heads of BERT, RoBERTa and DistilBERT call these functions.
    for place in (torch, functional):
        for function in ("tanh", "relu"):
            monkeypatch.setattr(place, function, lambda x, *_, **__: x)
    ones = torch.ones(1, 1, theirs.get_input_embeddings().embedding_dim)
    theirs(inputs_embeds=ones).logits.sum().backward()
    for name, gradient in found.items():
        expected = theirs.get_parameter(model.exported_name(name)).grad
        if expected is None:
            assert not gradient.any()
            continue
        expected = (expected.mT if model.is_transposed(name) else expected).numpy()
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * abs(expected).max())


def test_activations_are_left_out_for_a_moment_only():
    activation, x = ACT2FN["gelu_new"], torch.tensor(-1.0)
    with gradients._WithoutActivations(torch.nn.Sequential(activation)):
        assert activation(x) == torch.tanh(x) == x
    assert activation(x) != x != torch.tanh(x)


def mean_loss(model, tokens, task, names, temperature):
    """The mean of −log p(y|x) by transformers in float64, and the tensors of which it depends."""
    start = model.parameters | encoder.draw_classifier(model, seed=0)
    values = {name: value.double() for name, value in start.items()}
    leaves = {name: values[name].requires_grad_(True) for name in names}
    own = {
        model.exported_name(name): value.mT if model.is_transposed(name) else value
        for name, value in (values | leaves).items()
    }
    config = copy.deepcopy(model.config)
    config.num_labels = task.outputs
    theirs = reference.CLASSES[model.head].from_config(config, attn_implementation="eager")
    theirs, losses = theirs.eval().double(), []
    for row in tokens:
        inputs = {n: [row[n]] for n in ("input_ids", "token_type_ids") if n in row}
        logits = torch.func.functional_call(theirs, own, kwargs=reference.padded(inputs)).logits[0]
        if task.kind == "regression":
            losses.append(0.5 * (row["label"] - logits[0]) ** 2)
        else:
            losses.append(-(logits / temperature).log_softmax(0)[row["label"]])
    return torch.stack(losses).mean(), [*leaves.values()]


def test_the_examples_of_a_fold_do_not_count(model, tokens):
    fold = Fold(of=2, number=0, version=FOLD_VERSION)
    others = find_others(Examples(tokens, model.tokens_read), TASK, fold)
    assert 0 < len(others) < len(tokens)
    found = fisher_information(model, tokens, TASK, fold=fold).sums
    expected = fisher_information(model, tokens.select(others), TASK).sums
    pd.testing.assert_frame_equal(found, expected)
    names = ["classifier.bias"]
    one = mean_gradient(model, tokens, TASK, names, fold=fold)
    other = mean_gradient(model, tokens.select(others), TASK, names)
    np.testing.assert_array_equal(one[names[0]], other[names[0]])


@pytest.mark.parametrize("family", PACKED)
def test_there_may_be_as_many_words_as_examples_but_not_one_in_each(family, directory):
    task = examples.TASKS["ud_ewt"]
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    ids = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]
    columns = {"input_ids": ids, "reads": [[1, 3], [], [1], [4]], "label": [[0, 2], [], [2], [1]]}
    tokens = datasets.Dataset.from_dict(columns)
    assert_agrees(fisher_information(model, tokens, task), loop(model, tokens, task))


@pytest.mark.parametrize("tile", [1, 100, 10_000, module.GPU_TILE])
def test_the_size_of_a_tile_does_not_matter(tile, model, tokens, monkeypatch):
    monkeypatch.setattr(module, "TILE", tile)
    estimate = fisher_information(model, tokens, TASK, in_full=matrices(model))
    assert_agrees(estimate, loop(model, tokens, TASK))


def test_batches_that_do_not_fit_into_memory_are_halved(model, tokens, monkeypatch):
    expected = fisher_information(model, tokens, TASK)
    compute, sizes = module.compute_logits, []

    def greedy(model, batch, watch):
        sizes.append(len(batch.ids))
        outputs = compute(model, batch, watch=watch)
        if len(batch.ids) > 60:
            outputs.register_hook(lambda _: torch.empty(1 << 60))
        return outputs

    monkeypatch.setattr(module, "compute_logits", greedy)
    estimate = fisher_information(model, tokens, TASK)
    assert max(sizes) > 60 >= sizes[-1]
    for name, values in expected.entries.items():
        np.testing.assert_allclose(estimate.entries[name], values, rtol=1e-5, atol=1e-12)


def test_products_are_float32_even_after_training_with_shorter_ones(model, tokens, monkeypatch):
    with autocast(model.device, "tf32"):
        pass
    compute, allowed = module.compute_logits, []

    def watched(*of, **options):
        allowed.append(torch.backends.cuda.matmul.allow_tf32)
        return compute(*of, **options)

    monkeypatch.setattr(module, "compute_logits", watched)
    fisher_information(model, tokens, TASK)
    assert not any(allowed)


def test_only_what_is_asked_for_is_computed_and_it_is_the_same(model, tokens):
    names = [name for name in model.parameters if ".output.LayerNorm." in name]
    complete = fisher_information(model, tokens, TASK)
    estimate = fisher_information(model, tokens, TASK, only=names)
    assert list(estimate.entries) == names == estimate.sums["parameter"].tolist()
    for name in names:
        np.testing.assert_allclose(estimate.entries[name], complete.entries[name], rtol=1e-5)


def test_a_keys_bias_has_no_information_at_all(model, tokens):
    estimate = fisher_information(model, tokens, TASK)
    without = [name for name, values in estimate.entries.items() if not values.any()]
    assert without == [name for name in model.parameters if name.endswith("key.bias")]
    assert (estimate.sums.set_index("parameter").loc[without, "information"] == 0).all()


def test_a_sample_is_drawn_by_seed_and_is_a_part_of_the_rows(model, tokens):
    def bias(rows, seed=0):
        return fisher_information(model, tokens, TASK, rows, seed).entries["pooler.dense.bias"]

    assert (bias(5) == bias(5)).all()
    assert not np.allclose(bias(5), bias(12), rtol=1e-3)


def test_a_sample_of_rows_is_that_of_a_run_even_if_rows_are_cut_into_examples(directory_of):
    task = examples.TASKS["squad"]
    directory = directory_of("bert")
    tokens = examples.tokens(task, directory, rows=12)["train"]
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    train = Examples(tokens, model.tokens_read)
    assert len(train) > len(train.row_indices)
    drawn = draw_training_indices(train, 5, np.random.default_rng(3))
    found, _ = prepare_examples(model, tokens, task.spec(), 5, 3, "raw", None)
    assert [*found.row] == [*train.row[np.sort(drawn)]]


@pytest.mark.nightly
def test_it_agrees_with_the_loop_on_minilm_and_so_do_the_masks(minilm):
    task = examples.TASKS["mrpc"]
    tokens = examples.tokens(task, minilm, rows=6)["train"]
    model = load_encoder(minilm, SEQUENCE_CLASSIFICATION, task.outputs)
    estimate = fisher_information(model, tokens, task)
    expected = loop(model, tokens, task)
    assert_agrees(estimate, expected)
    names = [name for name in estimate.entries if ".output.LayerNorm." in name]
    every = [{name: values[name] for name in names} for values in (estimate.entries, expected)]
    n = sum(values.size for values in every[0].values())
    for fraction in (0.01, 0.2, 0.5):
        ours, theirs = (choose_entries(scores, int(fraction * n)) for scores in every)
        differing = sum(len(np.setxor1d(ours.get(n, []), theirs.get(n, []))) for n in names)
        # Entries at the cutoff may swap if their information differs by less than float32's
        # rounding.
        assert differing <= 2

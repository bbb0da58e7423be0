"""Fisher information against a loop written from Eq. 2 of the LayerNorm paper."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.families.base import (
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models import encoder
from subtune.models.load import load_model
from subtune.selections.rankings import ranks, summed
from subtune.tasks import TASKS
from subtune.training import fisher
from subtune.training.fisher import fisher_information, mean_squared_gradients
from tests.helpers import examples, reference
from tests.helpers.families import FIELDS


def loop(model, tokens, task, seed=0):
    """Eq. 2: the mean over examples of the squared gradient of log p(y|x)."""
    start = model.parameters | encoder.new_classifier(model, seed)
    leaves = {name: value.clone().requires_grad_(True) for name, value in start.items()}
    total = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in leaves.items()}
    for row in tokens:
        inputs = {n: [row[n]] for n in ("input_ids", "token_type_ids") if n in row}
        [logits] = reference.logits(model.config, leaves, inputs, head=model.head)
        match task.kind:
            case "regression":
                log_p = -0.5 * (row["label"] - logits[0]) ** 2
            case "classification":
                log_p = logits.log_softmax(0)[row["label"]]
            case "tokens":
                log_p = -nats_of(model.head, logits[row["reads"]], row["label"])
            case "span":
                log_p = -nats_of(model.head, logits, row["label"])
        gradients = torch.autograd.grad(log_p, list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            total[name] += gradient.double() ** 2
    return {name: value.numpy() / len(tokens) for name, value in total.items()}


@pytest.mark.parametrize("task", ["sst2", "ud_ewt"])
@pytest.mark.parametrize("family", FIELDS)
def test_it_agrees_with_transformers_own_gradients_for_every_other_family(
    family, task, directory_of
):
    directory, task = directory_of(family), TASKS[task]
    if family == "gemma3_text" and task.kind == "tokens":
        pytest.skip("transformers has no such model")
    tokens = examples.tokens(task, directory, rows=4)["train"]
    model = load_model(directory, task.of_kind.head, task.outputs)
    start = model.parameters | encoder.new_classifier(model, 0)
    theirs = reference.CLASSES[model.head].from_pretrained(
        directory,
        num_labels=task.outputs,
        attn_implementation="eager",
        ignore_mismatched_sizes=True,
    )
    own = {model.exported_name(name): name for name in start}
    theirs.eval().load_state_dict(
        {there: start[n].mT if model.is_transposed(n) else start[n] for there, n in own.items()}
    )
    expected = {name: np.zeros(value.shape) for name, value in start.items()}
    for row in tokens:
        inputs = {n: [row[n]] for n in ("input_ids", "token_type_ids") if n in row}
        [logits] = theirs(**reference.padded(inputs)).logits
        if task.kind == "tokens":
            nats = nats_of(model.head, logits[row["reads"]], row["label"])
        else:
            nats = -logits.log_softmax(0)[row["label"]]
        theirs.zero_grad()
        nats.backward()
        for there, value in theirs.named_parameters():
            if value.grad is not None:
                squares = value.grad.double().numpy() ** 2 / len(tokens)
                expected[own[there]] += squares.T if model.is_transposed(own[there]) else squares
    assert_agrees(fisher_information(model, tokens, task, in_full=matrices(model)), expected)


def matrices(model):
    return [n for n, value in model.parameters.items() if value.ndim > 1]


def assert_agrees(estimate, expected):
    # Gradients are float32; in the loop the keys' biases' are zero but for its rounding.
    nothing = 1e-12 * max(values.max() for values in expected.values())
    for name, values in estimate.entries.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-3, atol=nothing)
    for _, row in estimate.sums.iterrows():
        information = expected[row["parameter"]].sum()
        assert row["information"] == pytest.approx(information, rel=1e-4, abs=1e-9), row[
            "parameter"
        ]


@pytest.mark.parametrize("task", ["sst2", "mnli", "stsb", "ud_ewt", "squad"])
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_it_agrees_with_the_loop_for_both_families_and_all_kinds_of_task(task, family, request):
    directory = request.getfixturevalue(family)
    task = TASKS[task]
    tokens = examples.tokens(task, directory)["train"]
    model = load_model(directory, task.of_kind.head, task.outputs)
    expected = loop(model, tokens, task)
    assert_agrees(fisher_information(model, tokens, task), expected)
    complete = fisher_information(model, tokens, task, in_full=matrices(model))
    assert list(complete.entries) == list(model.parameters)
    assert_agrees(complete, expected)


ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]
# For each head: outputs, the tokens that it reads, and labels.
OF_TOKENS = {
    TOKEN_CLASSIFICATION: (3, [[1, 3, 4], [1, 2], [1], [2, 4]], [[0, 2, 1], [1, 1], [2], [0, 1]]),
    # There are as many tokens as examples, but not one token of each example.
    "uneven": (3, [[1, 3], [], [1], [4]], [[0, 2], [], [2], [1]]),
    QUESTION_ANSWERING: (2, "all", [[2, 4], [0, 0], [1, 1], [3, 3]]),
}


def nats_of(head, logits, label):
    """−log p of all labels of one example, from the logits ``[q, o]`` of what is read of it."""
    if head == QUESTION_ANSWERING:
        log_p = logits.log_softmax(0)
        return -log_p[label[0], 0] - log_p[label[1], 1]
    return -sum(logits.log_softmax(1)[number, word] for number, word in enumerate(label))


@pytest.mark.parametrize("case", OF_TOKENS)
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_the_information_of_an_example_is_that_of_all_its_tokens(case, family, request):
    outputs, reads, labels = OF_TOKENS[case]
    head = QUESTION_ANSWERING if case == QUESTION_ANSWERING else TOKEN_CLASSIFICATION
    model = load_model(request.getfixturevalue(family), head, outputs)
    model = replace(model, parameters=model.parameters | encoder.new_classifier(model, 0))
    leaves = {name: value.clone().requires_grad_(True) for name, value in model.parameters.items()}
    expected = {name: np.zeros(value.shape) for name, value in leaves.items()}
    for number, row in enumerate(ROWS):
        read = list(range(len(row))) if reads == "all" else reads[number]
        logits = reference.logits(model.config, leaves, {"input_ids": [row]}, head=head)[0, read]
        if read:
            nats = nats_of(head, logits, labels[number])
            gradients = torch.autograd.grad(nats, list(leaves.values()))
            for name, gradient in zip(leaves, gradients, strict=True):
                expected[name] += gradient.double().numpy() ** 2 / len(ROWS)

    def nats_of_batch(logits, batch):
        if head == TOKEN_CLASSIFICATION:
            return nats_of(head, logits[0], batch.labels)
        return sum(
            nats_of(head, logits[0, batch.read_of == number], label)
            for number, label in enumerate(batch.labels)
        )

    rows, names = examples.packable(ROWS, labels, reads=reads), list(model.parameters)
    estimate = mean_squared_gradients(model, rows, nats_of_batch, names)
    complete = mean_squared_gradients(model, rows, nats_of_batch, names, matrices(model))
    nothing = 1e-12 * max(values.max() for values in expected.values())
    for name, values in expected.items():
        np.testing.assert_allclose(complete[name], values, rtol=1e-3, atol=nothing, err_msg=name)
        assert estimate[name].sum() == pytest.approx(values.sum(), rel=1e-4, abs=1e-9), name


@pytest.mark.parametrize("tile", [1, 40, 100, 10_000])
def test_the_size_of_a_tile_does_not_matter(tile, tiny_bert, monkeypatch):
    task = TASKS["sst2"]
    tokens = examples.tokens(task, tiny_bert, rows=3)["train"]
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    monkeypatch.setattr(fisher, "TILE", tile)
    estimate = fisher_information(model, tokens, task, in_full=matrices(model))
    assert_agrees(estimate, loop(model, tokens, task))


@pytest.mark.slow
def test_it_agrees_with_the_loop_on_minilm_and_so_do_the_masks(minilm):
    task = TASKS["mrpc"]
    tokens = examples.tokens(task, minilm, rows=6)["train"]
    model = load_model(minilm, SEQUENCE_CLASSIFICATION, task.outputs)
    estimate = fisher_information(model, tokens, task)
    expected = loop(model, tokens, task)
    assert_agrees(estimate, expected)
    names = [name for name in estimate.entries if ".output.LayerNorm." in name]
    ours = ranks(summed([{name: estimate.entries[name] for name in names}]))
    theirs = ranks(summed([{name: expected[name] for name in names}]))
    n = sum(rank.size for rank in ours.values())
    for fraction in (0.01, 0.2, 0.5):
        kept = [
            np.concatenate([rank < fraction * n for rank in ranking.values()])
            for ranking in (ours, theirs)
        ]
        # Entries at the very edge may swap, where two informations differ by less than a float's
        # rounding.
        assert (kept[0] != kept[1]).sum() <= 2


def test_squaring_a_batch_mean_gradient_would_be_a_different_number(tiny_bert):
    task = TASKS["sst2"]
    tokens = examples.tokens(task, tiny_bert)["train"]
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    estimate = fisher_information(model, tokens, task).entries["classifier.bias"]
    start = model.parameters | encoder.new_classifier(model, 0)
    bias = start["classifier.bias"].requires_grad_(True)
    inputs = {"input_ids": tokens["input_ids"]}
    logits = reference.logits(model.config, start, inputs)
    torch.nn.functional.cross_entropy(logits, torch.tensor(tokens["label"])).backward()
    assert not np.allclose(estimate, bias.grad.numpy() ** 2, rtol=0.1)


def test_only_what_is_asked_for_is_computed_and_it_is_the_same(tiny_bert):
    task = TASKS["sst2"]
    tokens = examples.tokens(task, tiny_bert)["train"]
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    names = [name for name in model.parameters if ".output.LayerNorm." in name]
    complete = fisher_information(model, tokens, task)
    estimate = fisher_information(model, tokens, task, only=names)
    assert list(estimate.entries) == names == estimate.sums["parameter"].tolist()
    for name in names:
        np.testing.assert_allclose(estimate.entries[name], complete.entries[name], rtol=1e-5)


def test_a_keys_bias_has_no_information_at_all(tiny_bert):
    task = TASKS["sst2"]
    tokens = examples.tokens(task, tiny_bert)["train"]
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    estimate = fisher_information(model, tokens, task)
    without = [name for name, values in estimate.entries.items() if not values.any()]
    assert without == [name for name in model.parameters if name.endswith("key.bias")]
    assert (estimate.sums.set_index("parameter").loc[without, "information"] == 0).all()


def test_a_sample_is_drawn_by_seed_and_is_a_part_of_the_rows(tiny_bert):
    task = TASKS["sst2"]
    tokens = examples.tokens(task, tiny_bert, rows=12)["train"]
    model = load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)

    def bias(rows, seed=0):
        return fisher_information(model, tokens, task, rows, seed).entries["pooler.dense.bias"]

    assert (bias(5) == bias(5)).all()
    assert not np.allclose(bias(5), bias(12), rtol=1e-3)

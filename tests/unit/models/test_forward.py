"""The forward pass of runs side by side, beside transformers' code run by run."""

import copy
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModel
from transformers.activations import ACT2FN

from subtune.models import forward, packing
from subtune.models.encoder import load_encoder, with_new_classifier
from subtune.models.families import (
    ACTIVATIONS,
    HEADS,
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from subtune.models.forward import (
    bucket_attention,
    compute_hidden_states,
    jagged_attention,
    pad,
    unpad,
)
from subtune.models.operations import DropoutMasks, PerRun
from subtune.models.packing import make_bucket, make_single_bucket, pack_batch
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from tests.helpers import examples, reference

ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]
TOKEN_TYPES = [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1], [0, 0], [0, 1, 1, 1, 1, 1]]
ALL = np.arange(4)
# The tokens that each head reads, their labels, and its number of outputs.
HEAD_INPUTS = {
    SEQUENCE_CLASSIFICATION: (None, [1, 0, 2, 0], 3),
    MEAN_CLASSIFICATION: ("all", [1, 0, 1, 0], 2),
    TOKEN_CLASSIFICATION: ([[1, 3, 4], [2], [0, 1], [1, 2]], [[0, 2, 1], [1], [2, 2], [0, 1]], 3),
    QUESTION_ANSWERING: ("all", [[2, 4], [0, 0], [1, 1], [3, 3]], 2),
}
MODELS = [(name, head) for head in HEADS for name in ("tiny_bert", "tiny_roberta")]


@pytest.fixture(params=MODELS, ids="-".join)
def model(request):
    """A model with a classifier that is not zero."""
    name, head = request.param
    pretrained = load_encoder(request.getfixturevalue(name), head, HEAD_INPUTS[head][2])
    return with_new_classifier(pretrained, 0)


def inputs(model):
    token_types = {} if model.config.model_type == "roberta" else {"token_type_ids": TOKEN_TYPES}
    return {
        n: [np.array(row) for row in rows] for n, rows in {"input_ids": ROWS, **token_types}.items()
    }


def batch(model, index=ALL, fixed_shape=False):
    token_types = inputs(model).get("token_type_ids")
    reads, labels, _ = HEAD_INPUTS[model.head]
    rows = examples.packable(ROWS, labels, token_types, reads)
    return pack_batch(rows, np.array(index), model, fixed_shape)


def theirs_of(model, parameters, mask=None):
    """Return transformers' logits ``[q, o]`` of all examples, at the tokens that the head reads."""
    logits = reference.logits(model.config, parameters, inputs(model), mask, model.head)
    reads = HEAD_INPUTS[model.head][0]
    if reads is None or model.averages_logits:
        return logits
    numbers = [range(len(row)) for row in ROWS] if reads == "all" else reads
    return torch.cat([logits[example, list(at)] for example, at in enumerate(numbers)])


def differs(name, value):
    return value.ndim == 1 or name.startswith("classifier")


def leaves_of(model, runs):
    """Return leaves: vectors and classifiers differ a little by run, matrices are shared."""
    torch.manual_seed(1)
    leaves = {}
    for name, value in model.parameters.items():
        if differs(name, value):
            value = value + 0.1 * torch.randn(runs, *value.shape)
        leaves[name] = value.clone().requires_grad_(True)
    return leaves


def weights_of(model, leaves):
    """Return the leaves as the forward pass reads them."""
    return {
        name: PerRun(leaf) if differs(name, model.parameters[name]) else leaf
        for name, leaf in leaves.items()
    }


def one_run(model, leaves, run):
    return {
        name: leaf[run] if differs(name, model.parameters[name]) else leaf
        for name, leaf in leaves.items()
    }


def gradients_of(logits, leaves):
    """Return gradients of the sum of squares: zeros where no logit depends on a leaf."""
    return torch.autograd.grad(logits.square().sum(), list(leaves.values()), materialize_grads=True)


def with_dropout(model, p):
    config = copy.deepcopy(model.config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = p
    return replace(model, config=config)


def of_padded(model, draw):
    """Return a mask function for padded tensors that drops what ``draw`` drops of packed ones."""

    def mask(shape, p):
        if len(shape) == 2:
            return draw(shape, p)
        packed = batch(model)
        numbers = slice(None) if p == model.config.hidden_dropout_prob else packed.reads
        padded = torch.ones(shape)
        example, position = packed.example[numbers], packed.positions[numbers]
        padded[example, position] = draw((len(example), shape[2]), p)
        return padded

    return mask


@pytest.mark.parametrize(
    "model", [*MODELS, ("minilm", SEQUENCE_CLASSIFICATION)], ids="-".join, indirect=True
)
def test_logits_and_gradients_are_those_of_each_run_alone(model):
    leaves = leaves_of(model, 3)
    computed = forward.compute_logits(model, batch(model), weights_of(model, leaves))
    expected = torch.stack([theirs_of(model, one_run(model, leaves, run)) for run in range(3)])
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5)
    ours = gradients_of(computed, leaves)
    theirs = torch.autograd.grad(expected.square().sum(), list(leaves.values()))
    for name, gradient, expected_gradient in zip(leaves, ours, theirs, strict=True):
        scale = expected_gradient.abs().max().item()
        torch.testing.assert_close(
            gradient, expected_gradient, rtol=1e-3, atol=1e-5 * scale + 1e-7, msg=name
        )


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_head_is_transformers_own_and_drops_what_it_drops(model, p):
    model = with_dropout(model, 0.0)
    model.config.classifier_dropout = p
    if HEAD_INPUTS[model.head][0]:
        # Then all layers compute all tokens, and drop the same of them.
        model.config.hidden_dropout_prob = 0.25
    leaves = {n: v.double().requires_grad_(True) for n, v in model.parameters.items()}
    ours, theirs = (DropoutMasks(3, model.device) for _ in range(2))
    computed = forward.compute_logits(replace(model, parameters=leaves), batch(model), masks=ours)[
        0
    ]
    expected = theirs_of(model, leaves, of_padded(model, theirs.draw_mask))
    torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-9)
    assert torch.equal(ours.draw_mask((5,), 0.5), theirs.draw_mask((5,), 0.5))
    gradients = (gradients_of(logits, leaves) for logits in (computed, expected))
    for name, *both in zip(leaves, *gradients, strict=True):
        torch.testing.assert_close(*both, rtol=1e-9, atol=1e-9, msg=name)


def test_a_keys_bias_has_gradient_zero_to_the_last_bit(model):
    leaves = leaves_of(model, 2)
    for precision in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            computed = forward.compute_logits(model, batch(model), weights_of(model, leaves))
        gradients = dict(zip(leaves, gradients_of(computed, leaves), strict=True))
        zero = [name for name, gradient in gradients.items() if not gradient.any()]
        assert zero == [name for name in leaves if name.endswith("key.bias")]


def test_a_pass_computes_as_much_as_its_dimensions_say(model):
    """Compare with torch's counter, without the last product, which has few outputs."""
    examples_of_a_length = batch(model, [3, 3, 3, 3])
    with FlopCounterMode(display=False) as counter:
        forward.compute_logits(model, examples_of_a_length)
    dimensions = model.family.dimensions(model.config.to_dict())
    expected = dimensions.forward_flops(len(examples_of_a_length.ids) / 4, model.head)
    assert expected == pytest.approx(counter.get_total_flops() / 4, rel=0.01)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_what_transformers_calls_by_its_name(name):
    x = torch.linspace(-5, 5, 101)
    assert torch.equal(forward.find_activation(name)(x), ACT2FN[name](x))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5), cost=st.integers(0, 60))
def test_examples_of_any_lengths_have_transformers_logits_and_gradients(lengths, cost, model):
    """A low cost of buckets divides the examples into several."""
    generator = np.random.default_rng(lengths)
    named = {"input_ids": [generator.integers(5, 12, length) for length in lengths]}
    if model.config.type_vocab_size > 1:
        named["token_type_ids"] = [generator.integers(0, 2, length) for length in lengths]
    # The first tokens of all examples, or all tokens.
    reads = None if HEAD_INPUTS[model.head][0] is None else "all"
    rows = examples.packable(
        named["input_ids"], [0] * len(lengths), named.get("token_type_ids"), reads
    )
    leaves = {name: v.double().requires_grad_(True) for name, v in model.parameters.items()}
    in_double = replace(model, parameters=leaves)
    with patch.object(packing, "SCORES_PER_BUCKET", cost):
        [computed] = forward.compute_logits(
            in_double, pack_batch(rows, np.arange(len(lengths)), model)
        )
    expected = reference.logits(model.config, leaves, named, head=model.head)
    if reads and not model.averages_logits:
        expected = torch.cat([of[:length] for of, length in zip(expected, lengths, strict=True)])
    torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        gradients_of(computed, leaves), gradients_of(expected, leaves), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("power", [1, 2])
@given(lengths=st.lists(st.integers(1, 128), min_size=1, max_size=40), cost=st.integers(0, 20_000))
def test_cut_into_parts_examples_keep_their_order_and_take_fewer_places(power, lengths, cost):
    def places(part):
        return len(part) * max(part) ** power

    parts = packing.split_by_length(np.array(lengths), cost, power)
    assert [length for part in parts for length in part] == lengths
    assert sum(map(places, parts)) + cost * (len(parts) - 1) <= places(lengths)


def test_a_batch_is_cut_where_padding_costs_more_than_a_pass(directory_of, monkeypatch):
    rows = examples.packable([[2] * length for length in (104, 4, 100, 5)], [0] * 4)

    def parts(family):
        model = load_encoder(directory_of(family), SEQUENCE_CLASSIFICATION, 2)
        return [places.tolist() for places, _ in packing.pack_micro_batches(rows, ALL, model)]

    assert parts("bert") == [[1, 3, 2, 0]]
    # Two short examples as long as the longest have 198 tokens more.
    for cost, expected in ((198, [[1, 3], [2, 0]]), (199, [[1, 3, 2, 0]])):
        monkeypatch.setattr(packing, "TOKENS_PER_PASS", cost)
        assert parts("electra") == expected


TEXTS = np.array([3, 0, 5])
# The states of a text that a classifier reads.
READ = {"first": slice(1), "last": slice(-1, None), "all": slice(None)}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2", "qwen2", "longformer"])
@pytest.mark.parametrize("reads", READ)
def test_states_are_those_of_transformers_model_without_a_head(family, reads, directory_of):
    directory = directory_of(family)
    split = Examples(examples.tokens(TASKS["mrpc"], directory)["train"], reads)
    model = load_encoder(directory, SEQUENCE_CLASSIFICATION, 2)
    plain = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    expected = []
    for number in TEXTS:
        inputs = {name: torch.tensor(split.inputs[name][number])[None] for name in split.inputs}
        if family == "longformer":
            # All other tokens attend to the first one, as in the model with a classifier.
            inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
            inputs["global_attention_mask"][:, 0] = 1
        with torch.inference_mode():
            expected.append(plain(**inputs).last_hidden_state[0, READ[reads]])
    with torch.inference_mode():
        states = compute_hidden_states(model, pack_batch(split, TEXTS, model))
    torch.testing.assert_close(states, torch.cat(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_padding_tokens_within_a_text_are_read_as_transformers_reads_them(family, directory_of):
    directory = directory_of(family)
    model = load_encoder(directory, SEQUENCE_CLASSIFICATION, 2)
    padding, texts = model.config.pad_token_id, [[2, 9, 8, 3], [2, 9, 7, 7, 8, 3]]
    texts += [[2, 9, padding, 8, padding, padding, 7, 3], [padding, 9, padding]]
    plain = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.inference_mode():
        expected = [plain(torch.tensor([ids])).last_hidden_state[0] for ids in texts]
        rows = examples.packable(texts, [0] * len(texts), reads="all")
        packed_of = partial(pack_batch, rows, np.arange(len(texts)), model)
        for packed in (packed_of(), of_fixed_shape(packed_of)):
            states = compute_hidden_states(model, packed)[: sum(map(len, texts))]
            torch.testing.assert_close(states, torch.cat(expected), atol=1e-5, rtol=1e-5)


def of_fixed_shape(packed_of):
    """Return a batch as a GPU gets it: with a tail, and with attention within examples."""
    return replace(packed_of(fixed_shape=True), buckets=())


def test_a_batch_of_a_fixed_shape_has_the_logits_losses_and_gradients_of_its_examples(model):
    reads, labels, _ = HEAD_INPUTS[model.head]
    rows = examples.packable(ROWS, labels, inputs(model).get("token_type_ids"), reads)
    task = TASKS[
        {TOKEN_CLASSIFICATION: "ud_ewt", QUESTION_ANSWERING: "squad"}.get(model.head, "rte")
    ]
    found = []
    for packed in (
        pack_batch(rows, ALL, model),
        of_fixed_shape(partial(pack_batch, rows, ALL, model)),
    ):
        leaves = leaves_of(model, runs=3)
        logits = forward.compute_logits(model, packed, weights_of(model, leaves))
        losses = task.of_kind.losses(logits, packed.labels, packed.read_of)
        mean = losses / task.of_kind.loss_divisor(packed.labels, None)
        gradients = torch.autograd.grad(mean.sum(), list(leaves.values()), materialize_grads=True)
        found.append((logits[:, : len(pack_batch(rows, ALL, model).read_of)], mean, gradients))
    torch.testing.assert_close(found[1], found[0])


def test_the_docstring_of_packing_prints_the_arrays_of_three_texts(tiny_bert):
    model = load_encoder(tiny_bert, TOKEN_CLASSIFICATION, 2)
    model.config.num_attention_heads = 1
    labels, reads = [[], [1], [0, 1, 0]], [[], [1], [1, 2, 3]]
    rows = examples.packable([[2, 3], [2, 7, 3], [2, 8, 9, 8, 3]], labels, reads=reads)
    packed, fixed = (pack_batch(rows, np.arange(3), model, is_fixed) for is_fixed in (False, True))
    printed = dict(re.findall(r"^    ([a-z_]+) {2,}([-0-9].*)$", packing.__doc__, re.M))
    [bucket] = packed.buckets
    assert len(printed) == 9
    for name, line in printed.items():
        values, _, tail = line.partition("|")
        found = getattr(bucket if name.startswith("padd") else packed, name).flatten().tolist()
        assert found == [*map(float, values.replace(",", " ").split())], name
        if hasattr(fixed, name):
            assert getattr(fixed, name).tolist() == [*found, *map(int, tail.split())], name


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 100, 1040, 4097])
def test_a_fixed_shape_has_few_sizes_and_a_short_tail(count):
    size = packing.round_up(count)
    assert count <= size <= max(count + 1, 1.125 * count)
    assert packing.round_up(size) == size
    assert len({packing.round_up(n) for n in range(512, 1024)}) <= 9


@pytest.mark.parametrize("length, count", [(128, 16), (128, 32), (384, 32), (3, 7), (1, 1)])
def test_no_sequence_of_a_fixed_shape_exceeds_its_longest(tiny_bert, length, count):
    model = load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    texts = examples.packable([[2] * length] * count, [0] * count)
    packed = pack_batch(texts, np.arange(count), model, fixed_shape=True)
    ends = torch.tensor([*packed.starts[1:], len(packed.ids)])
    assert (ends - packed.starts).min() > 0 and (ends - packed.starts).max() <= packed.longest


RUNS, HEADS, WIDTH = 2, 3, 12
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def plain(query, key, value):
    """Return attention ``[k, q, h]`` of one example."""
    query, key, value = (
        x.unflatten(2, (HEADS, -1)).transpose(1, 2).double() for x in (query, key, value)
    )
    weights = (query @ key.mT / (WIDTH / HEADS) ** 0.5).softmax(-1)
    return (weights @ value).transpose(1, 2).flatten(2).float()


def drawn(lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    return torch.randn(3, RUNS, sum(lengths), WIDTH, generator=generator)


def bucket_of(lengths):
    counts = torch.tensor(lengths)
    return make_bucket(counts, torch.repeat_interleave(counts), max(lengths), HEADS)


@settings(max_examples=40)
@given(LENGTHS)
def test_without_padding_padded_tokens_are_the_tokens(lengths):
    bucket = bucket_of(lengths)
    tokens = drawn(lengths)[0]
    padded = pad(tokens, bucket)
    assert padded.shape == (RUNS * len(lengths) * HEADS, max(lengths), WIDTH // HEADS)
    assert torch.equal(unpad(padded, bucket), tokens)


@pytest.mark.parametrize("first_only", [False, True])
@settings(max_examples=40)
@given(LENGTHS)
def test_examples_attend_as_if_they_were_alone(first_only, lengths):
    query, key, value = drawn(lengths)
    counts = np.array(lengths)
    starts = torch.from_numpy(counts.cumsum() - counts)
    queries = [1 if first_only else length for length in lengths]
    if first_only:
        query = query[:, starts]
    pieces = zip(
        query.split(queries, 1), key.split(lengths, 1), value.split(lengths, 1), strict=True
    )
    expected = torch.cat([plain(*piece) for piece in pieces], 1)
    in_bucket = bucket_attention(query, key, value, bucket_of(lengths), None, 0.0)
    torch.testing.assert_close(in_bucket, expected, rtol=1e-4, atol=1e-5)
    jagged = jagged_attention(query, key, value, HEADS, starts, max(lengths), 0.0)
    torch.testing.assert_close(jagged, expected, rtol=1e-4, atol=1e-5)
    # On a GPU, the last of them is the tail.
    example = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    packed = SimpleNamespace(ids=example, example=example, starts=starts, longest=max(lengths) + 2)
    in_one = bucket_attention(query, key, value, make_single_bucket(packed, HEADS), None, 0.0)
    torch.testing.assert_close(in_one, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_that_of_the_loss_with_the_same_dropout(model):
    """Also for batches of a GPU, which have no buckets."""
    model = with_dropout(model, 0.3)
    found, expected = reference.slopes_with_dropout(model, batch(model))
    assert found == pytest.approx(expected, rel=5e-3)
    on_a_gpu = replace(batch(model, fixed_shape=True), buckets=())
    found, expected = reference.slopes_with_dropout(model, on_a_gpu)
    assert found == pytest.approx(expected, rel=5e-3)

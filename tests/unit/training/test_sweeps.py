"""Runs side by side: groups, the same results with any other runs, transformers' models."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.methods.selection import WholeTensors
from subtune.models import encoder, forward, transformers_pass
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.models.forward import compute_logits
from subtune.models.operations import PerRun
from subtune.models.packing import pack_batch
from subtune.tasks import TASKS
from subtune.tasks.examples import CPU_TRAINING_TOKENS
from subtune.training import groups, recipe, recorded_runs
from subtune.training.evaluation import autocast, check_padding, compute_split_logits
from subtune.training.groups import (
    ONE_BY_ONE,
    WITHOUT_PADDING,
    runs_at_once,
    split_into_groups,
    train_runs,
)
from subtune.training.recipe import train
from subtune.training.values import TrainedValues
from tests.helpers import examples
from tests.unit.training.results import assert_close, assert_same, in_double, loaded, member

RATES = (1e-3, 3e-3, 5e-3)


TASK = TASKS["sst2"]


def members_of(model, method):
    return [member(method, model, learning_rate=rate) for rate in RATES]


def steps_of(specs):
    """Return the places of those runs that share steps on a CPU."""
    masked = {"r 0.3": WholeTensors(parameters=("**.output.LayerNorm.weight",))}
    places: dict = {}
    for place, spec in enumerate(specs):
        places.setdefault(spec.sharing_key(masked, on_gpu=False), []).append(place)
    return sorted(places.values())


def test_runs_of_any_vectors_and_learning_rates_share_steps():
    kinds = ("layernorm", "bitfit", "layernorm", "top")
    specs = [
        examples.run_spec(examples.selection_of(kind), learning_rate=1e-3 * (place + 1))
        for place, kind in enumerate(kinds)
    ]
    assert steps_of(specs) == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"batch_size": 8},
        {"epochs": 3},
        {"train_rows": 5},
        {"precision": "bf16"},
        {"class_weights": "balanced"},
        {"weight_decay": 0.1},
        {"kind": "lora-I"},
        {"kind": "adapter"},
        {"kind": "full"},
        {"kind": "rand_row_col"},
        # Trained alone, the run needs no backward pass through the encoder.
        {"kind": "frozen"},
    ],
    ids=lambda other: "-".join(map(str, other.values())),
)
def test_runs_of_another_kind_do_not(other):
    settings = {key: value for key, value in other.items() if key not in ("kind", "seed")}
    kind, seed = other.get("kind", "layernorm"), other.get("seed", 0)
    specs = []
    for rate in (1e-3, 2e-3):
        specs.append(examples.run_spec(learning_rate=rate))
        spec = examples.run_spec(examples.selection_of(kind), learning_rate=rate, **settings)
        specs.append(spec.replace(seed=seed))
    others = [[1], [3]] if kind in ("full", "rand_row_col") else [[1, 3]]
    assert steps_of(specs) == sorted([[0, 2], *others])


def test_a_pass_holds_as_many_runs_as_it_may(model, rows, monkeypatch):
    monkeypatch.setattr(groups, "runs_at_once", lambda *of: 3)
    found = split_into_groups(model, rows["train"], [member("layernorm", model)] * 7, print)
    assert [*map(len, found)] == [3, 3, 1]


def test_on_a_cpu_the_tokens_of_a_pass_are_bounded(model, rows):
    members = [member("layernorm", model, batch_size=4)] * 100
    runs = runs_at_once(model, rows["train"], members)
    tokens = rows["train"].lengths.mean() * 4
    assert runs * tokens <= CPU_TRAINING_TOKENS < (runs + 1) * tokens


KINDS = ("layernorm", "bitfit", "top", "lora-I", "bitfit", "lora-I")


@pytest.mark.fault(
    "numbers",
    "a run is in another group, order or number of threads",
    "same numbers, except for rounding",
)
def test_a_run_has_the_same_numbers_in_any_company_order_and_threads(tiny_bert, monkeypatch):
    """Twelve rows in batches of 11 leave one batch with a single row."""
    model, rows = loaded(TASK, tiny_bert)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    model = in_double(model)
    specs = {
        str(number): examples.run_spec(
            examples.selection_of(kind), learning_rate=1e-3 * (number + 1), batch_size=11
        ).replace(seed=seed)
        for number, (kind, seed) in enumerate([*((kind, 0) for kind in KINDS), ("bitfit", 1)])
    }

    masks = {"r 0.3": examples.mask(model, 0.3)}

    def deltas(size, order=1):
        monkeypatch.setattr(groups, "runs_at_once", lambda *of: size)
        chosen = dict([*specs.items()][::order])
        trained = train_runs(model, rows, chosen, masks, lambda line: None)
        return {name: result.delta for name, result, _ in trained}

    alone = deltas(1)
    torch.testing.assert_close(deltas(4, order=-1), alone, rtol=1e-10, atol=1e-12)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        torch.testing.assert_close(deltas(2), alone, rtol=1e-10, atol=1e-12)
    finally:
        torch.set_num_threads(threads)


@pytest.fixture
def in_groups(name, batch_size, minilm, monkeypatch):
    """A function that trains runs of MiniLM, which differ in rates, some also in kinds or seeds.

    It trains up to ``size`` runs side by side, and returns all results in one order.
    """
    task = examples.TASKS[name]
    rows = examples.examples_of(task, examples.tokens(task, minilm))
    model = load_encoder(minilm, task.of_kind.head, task.outputs)
    settings = {"batch_size": batch_size, "epochs": 2, "warmup": 0.0}
    specs = {}
    for number, (kind, seed) in enumerate([*((kind, 0) for kind in KINDS), ("bitfit", 1)]):
        rate = 1e-3 * (number + 1)
        spec = examples.run_spec(examples.selection_of(kind), name, learning_rate=rate, **settings)
        specs[str(number)] = spec.replace(seed=seed)
    masks = {"r 0.3": examples.mask(model, 0.3)}

    def in_groups(size, order=1):
        chosen = dict([*specs.items()][::order])
        monkeypatch.setattr(groups, "runs_at_once", lambda *of: size)
        trained = train_runs(model, rows, chosen, masks, lambda line: None)
        found = {number: result for number, result, _ in trained}
        return [found[number] for number in specs]

    return in_groups


@pytest.fixture
def threads():
    """A function that sets the number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "batch_size"), [("sst2", 11), ("stsb", 3)])
def test_in_fp32_the_numbers_are_the_same_but_for_rounding(in_groups, threads):
    """Twelve rows in batches of 11 leave one batch with a single row."""
    threads(1)
    alone = in_groups(1)
    assert_close(in_groups(4, order=-1), alone)
    threads(2)
    assert_close(in_groups(2), alone)


def mixed_values(monkeypatch):
    """Let every run compute with another run's values of one vector."""
    weights, name = TrainedValues.weights, "encoder.layer.5.output.LayerNorm.bias"

    def mixed(values, runs=None):
        found = weights(values, runs)
        return found | {name: PerRun(found[name].values.roll(1, 0))} if name in found else found

    monkeypatch.setattr(TrainedValues, "weights", mixed)


def mixed_rates(monkeypatch):
    """Let every run step with the first run's learning rate."""
    rate_at, rates = recipe.learning_rate_at, {}

    def mixed(step, *of):
        return rates.setdefault(step, rate_at(step, *of))

    monkeypatch.setattr(recipe, "learning_rate_at", mixed)


def mixed_masks(monkeypatch):
    """Let every run but the first drop what no run drops by itself."""
    dropped = forward._apply_dropout

    def mixed(forward_pass, x, p):
        return torch.cat([dropped(forward_pass, one[None], p) for one in x])

    monkeypatch.setattr(forward, "_apply_dropout", mixed)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "batch_size"), [("sst2", 11)])
def test_a_leak_between_runs_is_more_than_rounding(in_groups, monkeypatch):
    alone = in_groups(1)
    for leak in (mixed_values, mixed_rates, mixed_masks):
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            leak(patch)
            assert_close(in_groups(4), alone)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.fault("numbers", "a group is trained twice", "same bits")
def test_a_group_that_trains_again_has_the_same_bits(precision, model, rows):
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    kinds = (("layernorm", 0), ("full", 0), ("bitfit", 0), ("layernorm", 1), ("lora-I", 0))
    settings = {"learning_rate": 1e-3, "precision": precision}
    specs = {
        str(number): examples.run_spec(METHODS[kind], **settings).replace(seed=seed)
        for number, (kind, seed) in enumerate(kinds)
    }

    def results():
        trained = train_runs(model, rows, specs, {}, lambda line: None)
        return {number: result for number, result, _ in trained}

    first, again = results(), results()
    assert first["0"].history[-1]["train_loss"] != first["3"].history[-1]["train_loss"]
    assert_same(again.values(), first.values())


@pytest.fixture
def tiny(directory_of):
    """A function from a family to a model, its tokens and its examples."""

    def tiny(family):
        tokens = examples.tokens(TASK, directory_of(family))
        model = load_encoder(directory_of(family), SEQUENCE_CLASSIFICATION, 2)
        return model, tokens, examples.examples_of(TASK, tokens)

    return tiny


def grouped(model, rows):
    """The sizes of groups of three runs, and the reason why they train one by one."""
    told, members = [], members_of(model, "bitfit")
    found = split_into_groups(model, rows["train"], members, lambda line, name: told.append(line))
    return [*map(len, found)], told


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(groups, "runs_at_once", lambda model, train, members: len(members))


@pytest.fixture
def refused_by_vmap(monkeypatch):
    """Models whose code converts a run's tensor to a number, which vmap refuses."""
    forward = transformers_pass.functional_call

    def looks(module, tensors, inputs, named):
        outputs = forward(module, tensors, inputs, named)
        if float(outputs.logits.sum()) > 1e9:
            raise AssertionError
        return outputs

    monkeypatch.setattr(transformers_pass, "functional_call", looks)


@pytest.mark.parametrize("family", ["electra", "deberta", "deberta-v2"])
def test_on_a_gpu_runs_of_transformers_models_train_side_by_side(family, tiny, request):
    model, _, rows = tiny(family)
    assert grouped(model, rows) == ([1, 1, 1], [])
    request.getfixturevalue("as_on_a_gpu")
    assert grouped(model, rows) == ([3], [])


def test_runs_whose_pass_mixes_them_up_train_one_by_one(tiny, as_on_a_gpu, monkeypatch):
    def mixed(compute, **of):
        def every_run_is_the_first(own, updates):
            first = compute({name: values[0] for name, values in own.items()}, {})
            return first.expand(len(next(iter(own.values()))), *first.shape)

        return every_run_is_the_first

    monkeypatch.setattr(transformers_pass, "vmap", mixed)
    model, _, rows = tiny("electra")
    found, [reason] = grouped(model, rows)
    assert found == [1, 1, 1]
    assert reason.endswith("the gradients of this model change if several runs share a pass")


def test_runs_that_vmap_refuses_train_one_by_one_and_say_so(
    tiny, as_on_a_gpu, refused_by_vmap, tmp_path
):
    model, tokens, rows = tiny("electra")
    assert grouped(model, rows)[0] == [1, 1, 1]
    specs = [examples.run_spec(METHODS["bitfit"], learning_rate=rate) for rate in RATES]
    lines = []
    recorded_runs.train_and_record(specs, tmp_path, model, tokens, {}, lines.append)
    told = "these runs train one by one: this model cannot compute several runs"
    [reason] = [line for line in lines if line.startswith(told)]
    for spec in specs:
        origin = json.loads((tmp_path / spec.id / "provenance.json").read_text())
        assert origin[ONE_BY_ONE] == reason


@pytest.mark.parametrize(("family", "sees"), [("fnet", True), ("electra", False), ("gpt2", False)])
def test_a_model_that_sees_padding_predicts_as_for_each_text_alone(family, sees, tiny):
    model, _, rows = tiny(family)
    assert len(set(rows["train"].lengths)) > 1
    proven = check_padding(model, rows.values())
    assert proven.transformers.sees_padding == sees
    proven = replace(proven, parameters=proven.parameters | encoder.draw_classifier(proven, 0))
    split = rows["train"]
    with torch.inference_mode():
        alone = [
            compute_logits(proven, pack_batch(split, np.array([n]), proven))[0]
            for n in range(len(split))
        ]
    [together] = compute_split_logits(proven, split, "fp32")
    np.testing.assert_allclose(together, torch.cat(alone).numpy(), rtol=0, atol=1e-6)


def test_whether_padding_is_seen_is_computed_with_long_products(tiny):
    model, _, rows = tiny("electra")
    are_short = []

    def compute(*of):
        are_short.append(torch.backends.cuda.matmul.allow_tf32)
        return compute_logits(*of)

    with autocast(model.device, "tf32"):
        check_padding(model, rows.values(), compute)
    assert are_short and not any(are_short)


def test_a_record_says_that_its_model_sees_padding(tiny, tmp_path):
    model, tokens, _ = tiny("fnet")
    spec = examples.run_spec(METHODS["bitfit"])
    recorded_runs.train_and_record([spec], tmp_path, model, tokens, {}, lambda report: None)
    origin = json.loads((tmp_path / spec.id / "provenance.json").read_text())
    assert origin[WITHOUT_PADDING].startswith("padding changes this model's results")


def test_what_transformers_code_raises_is_one_line(tiny, monkeypatch):
    model, _, rows = tiny("electra")

    def forward(*inputs, **named):
        raise ValueError("You have to specify pixel_values\nand more")

    monkeypatch.setattr(model.transformers.module, "forward", forward)
    with pytest.raises(SubtuneError) as error:
        train(model, rows, TASK, members_of(model, "bitfit"))
    assert str(error.value) == (
        "transformers' 'electra' model fails: You have to specify pixel_values"
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("family", "task", "kinds"),
    [
        ("bert", "sst2", "layernorm,top"),
        ("roberta", "stsb", "rand_row_col,lora-II"),
        # Through transformers' own code.
        ("modernbert", "stsb", "layernorm"),
    ],
)
def test_every_tensor_is_on_the_device_of_the_model(family, task, kinds, directory):
    command = [sys.executable, "-m", "tests.helpers.other_device", str(directory)]
    done = subprocess.run([*command, task, kinds], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

"""Training by transformers' own code: as by the packed pass, side by side or one by one."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models import encoder, transformers_models, transformers_pass
from subtune.models.encoder import load_model
from subtune.models.forward import logits
from subtune.models.packed import micro_batches, pack
from subtune.models.weights import DropoutMasks
from subtune.runs import recording
from subtune.selections.methods import METHODS
from subtune.tasks import TASKS
from subtune.training import evaluation, sweeps
from subtune.training.evaluation import logits_of
from subtune.training.recipe import train
from subtune.training.sweeps import ONE_BY_ONE, WITHOUT_PADDING
from subtune.training.values import to_stored
from tests.helpers import examples
from tests.unit.training.results import member

RATES = (1e-3, 3e-3, 5e-3)
TASK = TASKS["sst2"]


def members_of(model, method):
    return [member(method, model, learning_rate=rate) for rate in RATES]


def curve(result):
    return [
        [value for name, value in epoch.items() if name not in ("epoch", "seconds")]
        for epoch in result.history
    ]


def in_double(model):
    return replace(model, parameters={name: v.double() for name, v in model.parameters.items()})


@pytest.fixture
def tiny(directory_of):
    """A function from a family to a model, its tokens and its examples."""

    def tiny(family):
        tokens = examples.tokens(TASK, directory_of(family))
        model = load_model(directory_of(family), SEQUENCE_CLASSIFICATION, 2)
        return model, tokens, examples.examples_of(TASK, tokens)

    return tiny


def grouped(model, rows):
    """Groups of three runs, and why they train one by one."""
    told = []
    members = members_of(model, "bitfit")
    return sweeps.group_runs(model, rows["train"], members, None, told.append), told


@pytest.fixture
def without_dropout(minilm, tmp_path):
    """MiniLM, which both ways of computing can read."""
    directory = shutil.copytree(minilm, tmp_path / "minilm")
    fields = json.loads((directory / "config.json").read_text())
    fields |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (directory / "config.json").write_text(json.dumps(fields))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "task"),
    [("bitfit", "cola"), pytest.param("lora-II", "stsb", marks=pytest.mark.nightly)],
)
def test_minilm_learns_as_in_the_packed_pass(method, task, without_dropout):
    task = TASKS[task]
    kind = task.of_kind
    rows = examples.examples_of(task, examples.tokens(task, without_dropout, rows=8))
    packed, own = (
        in_double(load(without_dropout, kind.head, task.outputs))
        for load in (load_model, transformers_models.load)
    )
    assert packed.transformers is None
    assert own.transformers is not None
    results = train(packed, rows, task, members_of(packed, method))
    for expected, result in zip(
        results, train(own, rows, task, members_of(own, method)), strict=True
    ):
        np.testing.assert_allclose(curve(result), curve(expected), rtol=1e-8, atol=1e-8)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(sweeps, "runs_at_once", lambda model, train, members: len(members))


@pytest.fixture
def refused_by_vmap(monkeypatch):
    """Models whose code reads a number out of what a run computes, which vmap refuses."""
    forward = transformers_pass.functional_call

    def looks(module, tensors, inputs, named):
        outputs = forward(module, tensors, inputs, named)
        if float(outputs.logits.sum()) > 1e9:
            raise AssertionError
        return outputs

    monkeypatch.setattr(transformers_pass, "functional_call", looks)


@pytest.mark.parametrize("family", ["electra", "deberta", "deberta-v2"])
def test_runs_of_transformers_models_train_side_by_side(family, tiny, as_on_a_gpu):
    model, _, rows = tiny(family)
    assert grouped(model, rows) == ([[0, 1, 2]], [])


@pytest.mark.parametrize(("family", "method"), [("deberta-v2", "bitfit"), ("deberta", "lora-I")])
def test_debertas_runs_learn_side_by_side_what_each_learns_alone(family, method, tiny):
    model, _, rows = tiny(family)
    model = in_double(model)
    members = members_of(model, method)
    for one, result in zip(members, train(model, rows, TASK, members), strict=True):
        [alone] = train(model, rows, TASK, [one])
        np.testing.assert_allclose(curve(result), curve(alone), rtol=1e-9, atol=1e-9)
        deltas = to_stored(result.best.delta), to_stored(alone.best.delta)
        torch.testing.assert_close(*deltas, rtol=0, atol=1e-5)


def test_runs_whose_pass_mixes_them_up_train_one_by_one(tiny, as_on_a_gpu, monkeypatch):
    def mixed(compute, **of):
        def every_run_is_the_first(own, updates):
            first = compute({name: values[0] for name, values in own.items()}, {})
            return first.expand(len(next(iter(own.values()))), *first.shape)

        return every_run_is_the_first

    monkeypatch.setattr(transformers_pass, "vmap", mixed)
    model, _, rows = tiny("electra")
    found, [reason] = grouped(model, rows)
    assert found == [[0], [1], [2]]
    assert reason.endswith("this model computes other gradients for several runs in one pass")


def test_runs_share_masks_that_torch_draws_as_on_a_gpu(tiny, as_on_a_gpu, monkeypatch):
    def draw(masks, shape, p):
        return torch.empty(shape).bernoulli_(1 - p, generator=masks._generator) / (1 - p)

    monkeypatch.setattr(DropoutMasks, "draw", draw)
    model, _, rows = tiny("electra")
    for module in model.transformers.module.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.2
    assert grouped(model, rows) == ([[0, 1, 2]], [])


def test_runs_that_vmap_refuses_train_one_by_one_and_their_records_say_so(
    tiny, as_on_a_gpu, refused_by_vmap, tmp_path
):
    model, tokens, rows = tiny("electra")
    assert grouped(model, rows)[0] == [[0], [1], [2]]
    specs = [examples.run_spec(METHODS["bitfit"], learning_rate=rate) for rate in RATES]
    lines = []
    recording.train_and_record(specs, tmp_path, model, tokens, {}, lines.append)
    told = "these runs train one by one: this model cannot compute several runs"
    [reason] = [line for line in lines if line.startswith(told)]
    for spec in specs:
        origin = json.loads((tmp_path / spec.id / "provenance.json").read_text())
        assert origin[ONE_BY_ONE] == reason


def test_on_a_cpu_runs_of_transformers_own_models_train_one_by_one(tiny):
    model, _, rows = tiny("electra")
    assert grouped(model, rows) == ([[0], [1], [2]], [])


@pytest.mark.parametrize(("family", "sees"), [("fnet", True), ("electra", False), ("gpt2", False)])
def test_a_model_that_sees_padding_predicts_what_it_does_of_each_text_alone(family, sees, tiny):
    model, _, rows = tiny(family)
    assert len(set(rows["train"].lengths)) > 1
    proven = evaluation.without_padding_where_it_is_seen(model, rows.values())
    assert proven.transformers.sees_padding == sees
    proven = replace(proven, parameters=proven.parameters | encoder.new_classifier(proven, 0))
    split = rows["train"]
    with torch.inference_mode():
        alone = [logits(proven, pack(split, np.array([n]), proven))[0] for n in range(len(split))]
    together = logits_of(proven, split, "fp32")
    np.testing.assert_allclose(together, torch.cat(alone).numpy(), rtol=0, atol=1e-6)


def test_whether_padding_is_seen_is_computed_with_long_products(tiny):
    model, _, rows = tiny("electra")
    are_short = []

    def compute(*of):
        are_short.append(torch.backends.cuda.matmul.allow_tf32)
        return logits(*of)

    with evaluation.autocast(model.device, "tf32"):
        evaluation.without_padding_where_it_is_seen(model, rows.values(), compute)
    assert are_short and not any(are_short)


def test_passes_of_a_model_that_sees_padding_have_texts_of_one_length(tiny):
    model, _, _ = tiny("fnet")
    model = replace(model, transformers=replace(model.transformers, sees_padding=True))
    alike = micro_batches(np.array([7, 2, 5, 1]), np.array([3, 3, 4, 6]), model)
    assert [part.tolist() for part in alike] == [[7, 2], [5], [1]]


def test_a_record_says_that_its_model_sees_padding(tiny, tmp_path):
    model, tokens, _ = tiny("fnet")
    spec = examples.run_spec(METHODS["bitfit"])
    recording.train_and_record([spec], tmp_path, model, tokens, {}, lambda report: None)
    origin = json.loads((tmp_path / spec.id / "provenance.json").read_text())
    assert origin[WITHOUT_PADDING].startswith("padding changes what this model computes")


def test_what_transformers_code_raises_is_one_line(tiny, monkeypatch):
    model, _, rows = tiny("electra")

    def forward(*inputs, **named):
        raise ValueError("You have to specify pixel_values\nand more")

    monkeypatch.setattr(model.transformers.module, "forward", forward)
    with pytest.raises(SubtuneError) as error:
        train(model, rows, TASK, members_of(model, "bitfit"))
    assert str(error.value) == (
        "transformers' model of 'electra' fails on texts such as these: You have to specify "
        "pixel_values"
    )

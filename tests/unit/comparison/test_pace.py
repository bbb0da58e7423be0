"""Timed training steps of real models, and what is chosen by them."""

import time

import numpy as np
import pytest
from transformers import XmodConfig, XmodModel

from subtune.comparison import pace
from subtune.comparison.pace import fit_pace, measure_pace
from subtune.comparison.settings import find_starting_model
from subtune.config.schema import Pace
from subtune.core.errors import SubtuneError
from subtune.models.encoder import load_encoder
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training.evaluation import compute_split_logits
from tests.helpers import examples
from tests.helpers.families import save_tokenizer

METHODS = ("full", "bitfit", "lora-I", "frozen")
KINDS = {"matrices", "vectors", "low_rank", "nothing", "evaluation"}


def columns(task: str, rows: int) -> dict:
    """Columns of different texts, or pairs of texts."""
    texts = {name: [f"this is text {n} of {rows}" for n in range(rows)] for name in "ab"}
    numbers = TASKS[task].kind == "regression"
    labels = [n / rows if numbers else n % 2 for n in range(rows)]
    found = {f"text_{name}": texts[name] for name in "ab"[: len(TASKS[task].text)]}
    return {**found, "label": labels, "set": [*range(rows)]}


@pytest.mark.parametrize(("task", "rows"), [("sst2", 300), ("stsb", 300), ("sst2", 3)])
def test_every_kind_of_step_is_timed(tiny_bert, task, rows):
    found = measure_pace(
        find_starting_model(str(tiny_bert)), TASKS[task], columns(task, rows), 32, METHODS, 8
    )
    assert {*found.pace} == KINDS
    assert all(of.per_layer + of.per_teraflop > 0 for of in found.pace.values())


@pytest.mark.slow
def test_a_model_that_transformers_computes_is_timed(directory_of):
    model = find_starting_model(str(directory_of("distilbert")))
    found = measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 8)
    assert {*found.pace} == KINDS


def test_steps_that_take_too_long_are_left_out(tiny_bert, monkeypatch):
    started = time.monotonic()
    found = measure_pace(
        find_starting_model(str(tiny_bert)), TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1e-6
    )
    assert {*found.pace} == {"evaluation"}
    assert time.monotonic() - started < 2


def test_a_model_that_is_not_here_counts_like_a_known_device(monkeypatch):
    found = measure_pace(find_starting_model("someone/model"), TASKS["sst2"], {}, 32, METHODS, 8)
    assert found.device in ("H100", "CPU core")
    assert not found.pace


@pytest.mark.parametrize(
    ("seconds", "per_layer", "per_teraflop"),
    [
        ({8: 4.0}, 0, 1),
        ({8: 4.0, 32: 4.0}, 2000, 0),
        ({8: 6.0, 32: 18.0}, 1000, 1),
        # The least squares through the origin.
        ({8: 1.0, 32: 8.0}, 0, 0.485),
    ],
)
def test_no_part_of_a_step_takes_less_than_no_time(seconds, per_layer, per_teraflop):
    found = fit_pace(seconds, layers=2, teraflops=0.5)
    assert [found.per_layer, found.per_teraflop] == pytest.approx([per_layer, per_teraflop])


@pytest.mark.parametrize(("bf16", "chosen"), [(0.5, "bf16"), (0.99, "fp32"), (2.0, "fp32")])
def test_bf16_is_chosen_if_its_step_is_quicker(tiny_bert, monkeypatch, bf16, chosen):
    seconds = {"fp32": 1.0, "bf16": bf16}
    monkeypatch.setattr(pace.Timer, "evaluation", lambda self, precision: 0.001)
    monkeypatch.setattr(pace.Timer, "step", lambda self, *of: {of[2]: seconds[of[3]]})
    found = measure_pace(
        find_starting_model(str(tiny_bert)), TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1
    )
    assert found.precision == chosen


@pytest.mark.parametrize(
    ("fails", "chosen"), [(("full", "bf16"), "fp32"), (("bitfit", "bf16"), "fp32")]
)
def test_a_precision_in_which_a_method_fails_is_not_chosen(tiny_bert, monkeypatch, fails, chosen):
    def step(self, kind, method, batch_size, precision):
        if (method, precision) == fails:
            raise SubtuneError("index put of another type")
        return {batch_size: {"fp32": 1.0, "bf16": 0.5}[precision]}

    monkeypatch.setattr(pace.Timer, "evaluation", lambda self, precision: 0.001)
    monkeypatch.setattr(pace.Timer, "step", step)
    found = measure_pace(
        find_starting_model(str(tiny_bert)), TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1
    )
    assert found.precision == chosen


def test_a_method_that_fails_in_every_precision_has_no_pace(tiny_bert, monkeypatch):
    def step(self, kind, method, batch_size, precision):
        if method != "full":
            raise SubtuneError("no such parameter")
        return {batch_size: 1.0}

    monkeypatch.setattr(pace.Timer, "step", step)
    model = find_starting_model(str(tiny_bert))
    found = measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1)
    assert {*found.pace} == {"matrices", "evaluation"}


def test_a_precision_that_the_processor_imitates_is_not_tried(tiny_bert, monkeypatch):
    tried = []

    def step(self, kind, method, batch_size, precision):
        tried.append(precision)
        return {batch_size: 1.0}

    monkeypatch.setattr(pace.Timer, "step", step)
    monkeypatch.setattr(pace.Timer, "evaluation", lambda self, p: {"fp32": 0.001, "bf16": 0.01}[p])
    model = find_starting_model(str(tiny_bert))
    found = measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1)
    assert found.precision == "fp32" and {*tried} == {"fp32"}


def test_a_model_that_fails_in_every_precision_is_refused(tiny_bert, monkeypatch):
    def fail(*of):
        raise SubtuneError("the model fails")

    monkeypatch.setattr(pace.Timer, "step", fail)
    model = find_starting_model(str(tiny_bert))
    with pytest.raises(SubtuneError, match="the model fails"):
        measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1)


@pytest.mark.slow
def test_a_model_whose_code_fails_in_bf16_is_trained_in_fp32(tmp_path):
    config = XmodConfig(
        vocab_size=1000, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, languages=["en_XX"], default_language="en_XX",
    )  # fmt: skip
    XmodModel(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    model = find_starting_model(str(tmp_path))
    found = measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 8)
    assert found.precision == "fp32" and {*found.pace} == KINDS
    encoder = load_encoder(tmp_path, "sequence_classification", 2)
    rows = Examples(examples.tokens(TASKS["sst2"], tmp_path)["train"])
    assert np.isfinite(compute_split_logits(encoder, rows, "fp32")).all()
    with pytest.raises(SubtuneError, match=r"fails on the texts: .*; try `precision: fp"):
        compute_split_logits(encoder, rows, "bf16")


@pytest.mark.parametrize(("shared", "size"), [(0, 8), (10, 16), (1000, 32)])
def test_batches_are_large_enough_that_texts_take_most_of_a_step(
    tiny_bert, monkeypatch, shared, size
):
    # A step takes as long as the texts of its batch and `shared` others.
    monkeypatch.setattr(
        pace.Timer,
        "step",
        lambda self, kind, method, batch_size, precision: {batch_size: batch_size + shared},
    )
    found = measure_pace(
        find_starting_model(str(tiny_bert)), TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1
    )
    assert found.least_batch == size


def test_models_share_the_seconds_and_a_precision_that_suits_all(
    tiny_bert, tiny_roberta, monkeypatch
):
    calls = []

    def measure(model, task, columns, max_length, methods, seconds, tries_bf16):
        calls.append((model.reference, seconds, tries_bf16))
        chosen = "bf16" if tries_bf16 and model.reference != str(tiny_bert) else "fp32"
        step = {"matrices": Pace(per_layer=0, per_teraflop=len(calls))}
        return pace.MeasuredPace("a core", step, chosen, least_batch=len(calls))

    monkeypatch.setattr(pace, "measure_pace", measure)
    models = {
        name: find_starting_model(str(of))
        for name, of in zip("ab", (tiny_bert, tiny_roberta), strict=True)
    }
    methods = dict.fromkeys("ab", METHODS)
    found = pace.measure_paces(models, TASKS["sst2"], {}, 32, methods, 8)
    assert calls == [
        (str(tiny_bert), 4, True),
        (str(tiny_roberta), 4, True),
        (str(tiny_roberta), 4, False),
    ]
    assert (found.precision, found.least_batch) == ("fp32", 1)
    steps = [found.pace, found.pace_by_model["b"]]
    assert [of["matrices"].per_teraflop for of in steps] == [1, 3]

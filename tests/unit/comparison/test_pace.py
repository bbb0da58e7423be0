"""Timed training steps of real models, and what is chosen by them."""

import time
from functools import partial

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
        ({8: 4.0}, 0, 1000),
        ({8: 4.0, 32: 4.0}, 667, 0),
        ({8: 6.0, 32: 18.0}, 333, 1000),
        # The least squares through the origin.
        ({8: 1.0, 32: 8.0}, 0, 485),
    ],
)
def test_no_part_of_a_step_takes_less_than_no_time(seconds, per_layer, per_teraflop):
    found = fit_pace(seconds, layers=6, teraflops=5e-4)
    assert [found.per_layer, found.per_teraflop] == pytest.approx([per_layer, per_teraflop])


@pytest.fixture
def measured(tiny_bert, monkeypatch):
    """A function that measures a model whose steps take as long as a function of it says."""

    def measured(step):
        def time_step(timer, kind, method, batch_size):
            seconds = step(timer.precision, method, batch_size)
            timer.seconds.setdefault(kind, {})[batch_size] = seconds
            return seconds

        monkeypatch.setattr(pace.Timer, "time_step", time_step)
        model = find_starting_model(str(tiny_bert))
        return measure_pace(model, TASKS["sst2"], columns("sst2", 100), 32, METHODS, 1)

    return measured


@pytest.mark.parametrize(
    ("bf16", "fails", "chosen"),
    [
        (0.5, "", "bf16"),
        (0.99, "", "fp32"),
        (2.0, "", "fp32"),
        (0.5, "full", "fp32"),
        (0.5, "bitfit", "fp32"),
    ],
)
def test_bf16_is_chosen_if_its_step_is_quicker_and_no_method_fails_in_it(
    measured, monkeypatch, bf16, fails, chosen
):
    def step(precision, method, batch_size):
        if (precision, method) == ("bf16", fails):
            raise SubtuneError("index put of another type")
        return {"fp32": 1.0, "bf16": bf16}[precision]

    monkeypatch.setattr(pace.Timer, "forward", 0.001)
    found = measured(step)
    assert found.precision == chosen and {*found.pace} == KINDS


def test_a_precision_that_the_processor_imitates_is_not_tried(measured, monkeypatch):
    forward = property(lambda timer: {"fp32": 0.001, "bf16": 0.01}[timer.precision])
    monkeypatch.setattr(pace.Timer, "forward", forward)
    tried = []
    assert measured(lambda precision, *of: tried.append(precision) or 1.0).precision == "fp32"
    assert {*tried} == {"fp32"}


def test_a_method_that_fails_in_every_precision_has_no_pace_and_full_is_refused(measured):
    def step(fails, precision, method, batch_size):
        if method in fails:
            raise SubtuneError("no such parameter")
        return 1.0

    assert {*measured(partial(step, METHODS[1:])).pace} == {"matrices", "evaluation"}
    with pytest.raises(SubtuneError, match="no such parameter"):
        measured(partial(step, METHODS))


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
    with pytest.raises(SubtuneError, match=r"fails: .*; try `precision: fp"):
        compute_split_logits(encoder, rows, "bf16")


def test_models_share_the_seconds_and_a_precision_that_suits_all(
    tiny_bert, tiny_roberta, monkeypatch
):
    calls = []

    def measure(model, task, columns, max_length, methods, seconds, tries_bf16):
        calls.append((model.reference, seconds, tries_bf16))
        chosen = "bf16" if tries_bf16 and model.reference != str(tiny_bert) else "fp32"
        step = {"matrices": Pace(per_layer=0, per_teraflop=len(calls))}
        return pace.MeasuredPace("a core", step, chosen)

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
    assert found.precision == "fp32"
    steps = [found.pace, found.pace_by_model["b"]]
    assert [of["matrices"].per_teraflop for of in steps] == [1, 3]

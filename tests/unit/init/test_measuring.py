"""What a few steps on this machine say of longer training."""

import threading

import pytest

from subtune.init import measuring
from subtune.init.measuring import Step, fitted

FLOPS, MILLISECONDS = 5e10, 3.0


def step_of(flops: float, layers: float, factor: float = 1.0) -> Step:
    """A step of a machine with these two numbers."""
    return Step(factor * (flops / FLOPS + layers * MILLISECONDS / 1e3), flops, layers)


def test_steps_of_a_machine_say_what_it_computes_and_how_long_its_layers_take():
    steps = [step_of(1e10, 6), step_of(1e9, 6), step_of(5e9, 1.5)]
    assert fitted(steps, fastest=1e12) == pytest.approx((FLOPS, MILLISECONDS))


def test_no_step_is_faster_than_a_large_product():
    flops, milliseconds = fitted([step_of(0, 6), step_of(0, 2)], fastest=1e11)
    assert flops == pytest.approx(1e11)
    assert milliseconds == pytest.approx(MILLISECONDS)


def test_steps_that_explain_each_other_badly_leave_nothing_below_zero():
    steps = [step_of(1e10, 6), step_of(1e9, 6, factor=0.1), step_of(5e9, 1.5, factor=2)]
    flops, milliseconds = fitted(steps, fastest=1e12)
    assert 0 < flops <= 1e12
    assert milliseconds >= 0


def test_threads_that_keep_cores_busy_end():
    before = threading.active_count()
    with measuring.other_cores_busy(2):
        assert threading.active_count() == before + 2
    assert threading.active_count() == before

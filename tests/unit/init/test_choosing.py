"""Settings by the number of rows and the size of the model."""

import pytest

from subtune.init.choosing import learning_rates, settings_for
from subtune.init.defaults import DEFAULTS
from subtune.selections.methods import METHODS
from subtune.tasks.kinds import KINDS


def test_learning_rates_lie_between_those_of_the_nearest_widths():
    by_width = {384: (1e-2, 1e-3), 768: (1e-4, 1e-5)}
    assert learning_rates(by_width, 384) == (1e-2, 1e-3)
    assert learning_rates(by_width, 543) == pytest.approx((1e-3, 1e-4))
    assert learning_rates(by_width, 768) == (1e-4, 1e-5)
    assert learning_rates(by_width, 32) == learning_rates(by_width, 384)
    assert learning_rates(by_width, 4096) == learning_rates(by_width, 768)


def test_learning_rates_of_any_width_are_different_ones():
    for width in range(64, 1200, 16):
        for method in DEFAULTS.methods.values():
            rates = learning_rates(method.learning_rates, width)
            assert len(set(rates)) == len(rates)


def test_fewer_rows_are_seen_more_often_and_by_more_seeds():
    sizes = [settings_for(rows, 32, 384, ["full"]) for rows in (200, 1000, 2500, 20_000, 10**6)]
    assert [size.epochs for size in sizes] == [20, 10, 5, 3, 2]
    assert [len(size.seeds) for size in sizes] == [5, 5, 5, 1, 1]
    assert [size.runs for size in sizes] == [5, 5, 5, 1, 1]


def test_every_job_that_trains_at_once_has_its_share_of_the_runs():
    settings = settings_for(200, 32, 384, ["full", "bitfit", "layernorm", "lora-I", "frozen"])
    assert settings.runs == 25
    # Full fine-tuning has a job of its own.
    assert [settings.runs_per_job(at_once) for at_once in (1, 2, 3, 4, 100)] == [20, 20, 10, 10, 5]


def test_what_is_written_is_known_to_the_library():
    assert set(DEFAULTS.methods) <= set(METHODS)
    for kind, metrics in DEFAULTS.metrics.items():
        known = KINDS["regression" if kind == "regression" else "classification"].metrics
        assert set(metrics) <= set(known)

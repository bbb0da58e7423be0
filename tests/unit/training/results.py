"""Members of sweeps, and bitwise comparisons of their results."""

from dataclasses import replace

import torch

from subtune.training.recipe import Member
from subtune.training.values import to_stored
from tests.helpers import examples

# The files of a record that must be bit-identical.
FILES = ("delta.safetensors", "predictions.parquet", "epochs.parquet", "changes.csv")


def in_double(model):
    """A model in float64."""
    return replace(model, parameters={n: v.double() for n, v in model.parameters.items()})


def member(kind, model, seed=0, **recipe):
    return Member(examples.entries_of(kind, model), examples.recipe(**recipe), seed)


def facts_of(result):
    """Everything but the time."""
    history = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history]
    return history, result.best_epoch, result.best.scores, result.best.changes, result.trainable


def assert_same(results, expected):
    """Check that results are bit-identical."""
    for one, other in zip(results, expected, strict=True):
        assert facts_of(one) == facts_of(other)
        deltas = to_stored(one.best.delta), to_stored(other.best.delta)
        torch.testing.assert_close(*deltas, rtol=0, atol=0)
        assert all((v == one.best.predictions[k]).all() for k, v in other.best.predictions.items())
        for found, wanted in zip(one.predictions, other.predictions, strict=True):
            assert found.keys() == wanted.keys()
            assert all((values == found[split]).all() for split, values in wanted.items())


def assert_same_files(store, run, other_store, other, names=FILES):
    """Check that files of two records are bit-identical."""
    for name in names:
        files = store / run / name, other_store / other / name
        assert files[0].read_bytes() == files[1].read_bytes(), name

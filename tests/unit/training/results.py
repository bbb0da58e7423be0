"""Members of sweeps, and comparisons of their results, bitwise or to rounding."""

from dataclasses import replace

import pandas as pd
import torch

from subtune.models.encoder import load_encoder
from subtune.runs import records
from subtune.training.recipe import Run
from tests.helpers import examples

# Products round differently for other numbers of rows or threads. In four steps of MiniLM at rates
# of up to 7e-3, this changed losses and logits by up to 2 units of float32's rounding, and values
# (the norm of all differences, relative to that of all values) by up to 40: AdamW divides
# gradients by their own size, and so enlarges the rounding of the smallest. Runs that mix change
# them by 3,000 and 12,000 units or more, even if they mix in a single vector.
UNIT = torch.finfo(torch.float32).eps
CLOSE = {"rtol": 0, "atol": 100 * UNIT}
CLOSE_VALUES = 2000 * UNIT
# The files of a record that are bit-identical if the same group trains again.
FILES = ("delta.safetensors", "predictions.parquet", "epochs.parquet", "changes.csv")


def in_double(model):
    """A model in float64."""
    return replace(model, parameters={n: v.double() for n, v in model.parameters.items()})


def loaded(task, directory, head="", **rows):
    """Load a model for a task, and build the examples of its labelled splits."""
    model = load_encoder(directory, head or task.of_kind.head, task.outputs)
    return model, examples.examples_of(task, examples.tokens(task, directory, **rows), head)


def member(kind, model, seed=0, **recipe):
    return Run(examples.entries_of(kind, model), examples.recipe(**recipe), seed)


def facts_of(result):
    """Everything but the time."""
    history = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history]
    return history, result.best_epoch, result.best.scores, result.changes, result.trainable


def assert_same(results, expected):
    """Check that results are bit-identical."""
    for one, other in zip(results, expected, strict=True):
        assert facts_of(one) == facts_of(other)
        deltas = one.delta, other.delta
        torch.testing.assert_close(*deltas, rtol=0, atol=0)
        for found, wanted in zip(one.evaluations, other.evaluations, strict=True):
            assert found.predictions.keys() == wanted.predictions.keys()
            for split, values in wanted.predictions.items():
                assert (values == found.predictions[split]).all()


def assert_close(results, expected):
    """Check that results are equal to rounding, and their best epochs equal."""
    for one, other in zip(results, expected, strict=True):
        assert (one.best_epoch, one.trainable) == (other.best_epoch, other.trainable)
        losses = ([row["train_loss"] for row in of.history] for of in (one, other))
        torch.testing.assert_close(*losses, **CLOSE)
        for found, expected in zip(one.evaluations, other.evaluations, strict=True):
            torch.testing.assert_close(found.predictions, expected.predictions, **CLOSE)
        assert_close_values(one.delta, other.delta)


def assert_close_values(found, expected, within=CLOSE_VALUES):
    """Check that two stored deltas have the same entries, and values that are equal to rounding."""
    assert found.keys() == expected.keys()
    both = [[torch.as_tensor(of[name]) for name in expected] for of in (found, expected)]
    for one, other in zip(*both, strict=True):
        assert one.is_floating_point() or torch.equal(one, other)
    one, other = (torch.cat([v.flatten() for v in of if v.is_floating_point()]) for of in both)
    assert (one - other).norm() <= within * other.norm()


def assert_close_files(store, run, other_store, other):
    """Check that predictions and deltas of two records are equal to rounding."""
    places = (store, run), (other_store, other)
    assert_close_values(*(records.read_delta(*place) for place in places))
    tables = (pd.read_parquet(folder / name / "predictions.parquet") for folder, name in places)
    pd.testing.assert_frame_equal(*tables, **CLOSE)


def assert_same_files(store, run, other_store, other, names=FILES):
    """Check that files of two records are bit-identical."""
    for name in names:
        files = store / run / name, other_store / other / name
        assert files[0].read_bytes() == files[1].read_bytes(), name

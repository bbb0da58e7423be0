"""Adapters, compared with plain adapters in transformers' model and a plain loop of AdamW."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS, SELECTION
from subtune.methods.selection import count_trained_parameters
from subtune.models.dimensions import known_dimensions, read_dimensions, shapes_of_selection
from subtune.models.encoder import add_adapters, draw_classifier
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.tasks import TASKS
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import Run
from tests.helpers import examples, plain_training
from tests.helpers.plain_adapters import insert_houlsby, insert_pfeiffer
from tests.unit.training.results import in_double, loaded

TASK = TASKS["sst2"]
SEED = 3
TOLERANCE = 1e-10
CASES = {
    "houlsby": (insert_houlsby, {"size": 8}),
    "pfeiffer": (insert_pfeiffer, {"reduction": 4}),
}


@pytest.mark.parametrize("of_type", CASES)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_training_ends_where_plain_adapters_and_adamw_end(of_type, family, directory):
    insert, size = CASES[of_type]
    selection = SELECTION.validate_python({"adapter": {"type": of_type} | size})
    base, rows = loaded(TASK, directory)
    base = in_double(base)
    model = add_adapters(base, selection.adapter, SEED)
    entries = selection.resolve(model.shapes, SEED)
    constant = {"epochs": 1, "schedule": "constant", "warmup": 0.0}
    members = [
        Run(entries, examples.recipe(**constant, learning_rate=rate), SEED) for rate in (1e-3, 1e-2)
    ]
    for run in train_side_by_side(model, rows, TASK, members, lambda report: None):
        theirs = AutoModelForSequenceClassification.from_pretrained(
            directory, num_labels=2, dtype=torch.float64
        )
        start = model.parameters | draw_classifier(base, SEED)
        values = {theirs_of(name, base): start[name] for name in entries}
        trained = insert(theirs, **size, values=values)
        theirs.double()
        assert set(trained) == set(values)
        plain_training.train(theirs, rows["train"], run.recipe, SEED)
        for name, values in run.delta.items():
            expected = trained[theirs_of(name, base)].detach()
            assert (values - expected).abs().max() < TOLERANCE, name
        predicted = plain_training.logits(theirs, rows["validation"])
        assert np.abs(run.best.predictions["validation"] - predicted).max() < 1e-6


def theirs_of(name, base):
    """Return the name of a parameter in the plain model."""
    if not name.startswith("added."):
        return base.exported_name(name)
    return f"{base.config.model_type}.{name.removeprefix('added.').replace('dense.', '')}"


@pytest.mark.parametrize(
    ("method", "parameters"),
    # 48 · (2·1024·64 + 1024 + 64), 49 norms and the classifier; and one adapter per layer.
    [("adapter", 6_446_082), ("adapter-pfeiffer", 3_173_890)],
)
def test_the_adapters_of_bert_large_have_as_many_parameters_as_published(method, parameters):
    selection, dimensions = METHODS[method], known_dimensions("bert-large-cased")
    shapes = shapes_of_selection(selection, dimensions, 2, SEQUENCE_CLASSIFICATION)
    assert count_trained_parameters(selection.resolve(shapes, seed=0), shapes) == parameters


def test_a_model_of_another_family_has_no_adapters(directory_of):
    dimensions = read_dimensions(directory_of("modernbert"))
    shapes = shapes_of_selection(METHODS["adapter"], dimensions, 2, SEQUENCE_CLASSIFICATION)
    with pytest.raises(SubtuneError, match="adapters support only BERT, RoBERTa and XLM-RoBERTa"):
        METHODS["adapter"].resolve(shapes, seed=0)

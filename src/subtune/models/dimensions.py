"""The dimensions of models, and the parameters that methods train in them, without weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.core.errors import SubtuneError
from subtune.core.hub import PAPERS_MODELS
from subtune.methods import Selection
from subtune.methods.added import Adapters, Peft, PeftSettings
from subtune.methods.roles import Shape, is_classifier, is_embedding, split_name
from subtune.methods.selection import count_trained_parameters
from subtune.models.families import FAMILIES, SEQUENCE_CLASSIFICATION, Dimensions
from subtune.models.model_config import CONFIG, read_model_config

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class OtherDimensions:
    """The dimensions of a model that runs transformers' code, with the interface of `Dimensions`.

    Attributes:
        directory: the directory of the model's configuration.
        first_head: a head that transformers supports; sequence classification if possible.
        is_decoder: whether a token attends only to earlier tokens.
    """

    directory: Path
    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    first_head: str
    is_decoder: bool

    def shapes(self, outputs: int, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        from subtune.models.transformers_models import describe_parameters

        _, shapes = describe_parameters(self.directory, outputs, head)
        return shapes

    @property
    def parameters(self) -> int:
        shapes = self.shapes(1, self.first_head)
        return sum(math.prod(shape) for name, shape in shapes.items() if not is_classifier(name))

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Compute the floating-point operations of one example. Shared layers count at each use."""
        shapes = self.shapes(1, head)
        layers = {split_name(name).layer for name in shapes} - {None}
        times = self.num_hidden_layers / len(layers) if layers else 1.0
        multiplied = sum(
            math.prod(shape) * (1.0 if split_name(name).layer is None else times)
            for name, shape in shapes.items()
            if len(shape) > 1 and not is_embedding(name)
        )
        return tokens * (2 * multiplied + 4 * tokens * self.hidden_size * self.num_hidden_layers)


AnyDimensions = Dimensions | OtherDimensions
# The bytes for each entry of a trained matrix. The value, its gradient, the two moments of Adam and
# the value of the best epoch are float32. Copies of the value and the gradient are bfloat16.
BYTES_OF_TRAINED = 5 * 4 + 2 * 2


def activations_per_token(dimensions: AnyDimensions) -> int:
    """Estimate how many activations a layer stores per token, not counting attention scores."""
    hidden = dimensions.hidden_size
    # Some of transformers' configurations have no field ``intermediate_size``.
    intermediate = getattr(dimensions, "intermediate_size", None) or 4 * hidden
    return 8 * hidden + 3 * intermediate


def bytes_per_run(dimensions: AnyDimensions, tokens: float, trained: int) -> float:
    """Estimate the GPU memory, in bytes, that one run of a group needs.

    ``tokens`` is the number of tokens in a large batch; ``trained`` is the number of entries in the
    trained matrices.
    """
    stored = tokens * dimensions.num_hidden_layers * activations_per_token(dimensions)
    return 4 * stored + BYTES_OF_TRAINED * trained


@cache
def _peft_shapes(
    dimensions: AnyDimensions, settings: PeftSettings, outputs: int, head: str
) -> dict[str, Shape]:
    # Importing PEFT takes seconds, so planning imports it only for methods that need PEFT.
    from transformers import AutoConfig

    from subtune.models import peft, transformers_models

    if isinstance(dimensions, Dimensions):
        fields = dimensions._asdict()
        del fields["family"]
        config = AutoConfig.for_model(dimensions.model_type, **fields)
        config.num_labels = outputs
        family, shapes = dimensions.family, dimensions.shapes(1, head)
        names = {name: family.exported_name(name, head) for name in shapes}
    else:
        config = transformers_models.read_transformers_config(dimensions.directory, outputs)
        names, _ = transformers_models.describe_parameters(dimensions.directory, outputs, head)
    return peft.peft_shapes(config, head, settings, names)


def shapes_of_selection(
    selection: Selection, dimensions: AnyDimensions, outputs: int, head: str
) -> dict[str, Shape]:
    """Map canonical parameter names to shapes, including the parameters that a selection adds."""
    if isinstance(selection, Peft):
        return _peft_shapes(dimensions, selection.peft, outputs, head)
    shapes = dimensions.shapes(outputs, head)
    if isinstance(selection, Adapters) and isinstance(dimensions, Dimensions):
        layers, width = dimensions.num_hidden_layers, dimensions.hidden_size
        return selection.adapter.parameter_shapes(layers, width) | shapes
    return shapes


def papers_models() -> dict[str, Dimensions]:
    """Return the dimensions of the models in the papers, by name."""
    return {
        name: FAMILIES[model["config"]["model_type"]].dimensions(model["config"])
        for name, model in PAPERS_MODELS.items()
    }


def known_dimensions(name_or_path: str) -> AnyDimensions | None:
    """Return the dimensions of a local model or a model of a paper; None for other models."""
    if (Path(name_or_path) / CONFIG).is_file():
        return read_dimensions(Path(name_or_path))
    return papers_models().get(name_or_path.rpartition("/")[2])


def read_dimensions(directory: Path) -> AnyDimensions:
    """Read the dimensions of a model from a local directory. No weights are needed."""
    fields = read_model_config(directory)
    if fields["model_type"] in FAMILIES:
        return FAMILIES[fields["model_type"]].dimensions(fields)
    from subtune.models.transformers_models import (
        is_decoder,
        model_classes,
        read_transformers_config,
    )

    with_head = read_transformers_config(directory, outputs=1)
    config = with_head.get_text_config()

    def size(name: str, default: int) -> int:
        value = getattr(config, name, None)
        return value if isinstance(value, int) and value > 0 else default

    hidden = size("hidden_size", 1)
    return OtherDimensions(
        directory=directory,
        model_type=fields["model_type"],
        hidden_size=hidden,
        num_hidden_layers=size("num_hidden_layers", 1),
        # FNet has no attention heads.
        num_attention_heads=size("num_attention_heads", 1),
        intermediate_size=size("intermediate_size", 4 * hidden),
        first_head=next(iter(model_classes(with_head)), SEQUENCE_CLASSIFICATION),
        is_decoder=is_decoder(with_head),
    )


def count_parameters(
    models: Mapping[str, AnyDimensions],
    methods: Mapping[str, Selection],
    outputs: int,
    head: str = SEQUENCE_CLASSIFICATION,
) -> "pd.DataFrame":
    """Count the trained parameters of each method in each model.

    Returns:
        A table with one row per model and method, and these columns:

        * ``model``, ``method``
        * ``parameters``: the number of trained parameters, including the classifier
        * ``classifier``: the number of parameters of the classifier
        * ``share``: the trained fraction of the pretrained parameters, without the classifier, as
          in BitFit, Table 1. Classifiers of two families can differ by more parameters
          than some methods train
        * ``problem``: why the method cannot be used with the model, if so. Then ``parameters`` and
          ``share`` are missing
    """
    import pandas as pd

    rows = []
    for method, selection in methods.items():
        for model, dimensions in models.items():
            shapes = dimensions.shapes(outputs, head)
            classifier = sum(math.prod(shapes[name]) for name in filter(is_classifier, shapes))
            pretrained = sum(map(math.prod, shapes.values())) - classifier
            row: dict[str, Any] = {"model": model, "method": method, "classifier": classifier}
            try:
                shapes = shapes_of_selection(selection, dimensions, outputs, head)
                entries = selection.resolve(shapes, seed=0)
                row["parameters"] = count_trained_parameters(entries, shapes)
                row["share"] = (row["parameters"] - classifier) / pretrained
            except SubtuneError as error:
                row["problem"] = str(error)
            rows.append(row)
    columns = ["model", "method", "parameters", "classifier", "share", "problem"]
    return pd.DataFrame(rows, columns=columns).astype({"parameters": "Int64"})

"""What is known of a model without its weights: dimensions, and what its configuration says."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from subtune.core.errors import SubtuneError, one_line
from subtune.core.files import read_package_yaml
from subtune.methods import Selection
from subtune.methods.added import Adapter, Peft, PeftSettings
from subtune.methods.roles import Shape, family_naming, first_position, is_classifier, is_embedding
from subtune.methods.selection import count_trained
from subtune.models.families import (
    FAMILIES,
    MEAN_CLASSIFICATION,
    SEQUENCE_CLASSIFICATION,
    Dimensions,
)
from subtune.models.folders import CONFIG, explain_missing_config

if TYPE_CHECKING:
    import pandas as pd

# The default padding id of RoBERTa and similar families.
PADDING = 1
# The number of positions of a model whose configuration states none.
MANY = 1 << 20
# Files of sentence-transformers: the list of a model's modules, the settings of one of them, and
# the settings of pooling.
MODULES, MODULE_CONFIG, POOLING = "modules.json", "config.json", "*_Pooling/config.json"
# What a sequence classifier reads: the first token of a text, or the mean of all tokens.
Pooling = Literal["first", "mean"]
NO_POOLING = (
    "pooling: found {!r} for a decoder, expected none: only the last token has read the whole text"
)
# Fields of a configuration that may have the number of positions.
POSITIONS = ("max_position_embeddings", "n_positions")


def read_config(directory: Path) -> dict[str, Any]:
    """Return the fields of a model's configuration.

    Raises:
        SubtuneError: there is no configuration, or it describes a model that cannot be trained.
    """
    path = directory / CONFIG
    if not path.is_file():
        raise SubtuneError(explain_missing_config(directory))
    with one_line(f"{path} is not a model's configuration"):
        fields = json.loads(path.read_text())
        model_type = fields.get("model_type")
        method = (fields.get("quantization_config") or {}).get("quant_method")
    if not isinstance(model_type, str):
        raise _config_error(path, "model_type", model_type, "a model's name")
    # Our own forward pass would ignore other values of these fields.
    computed = FAMILIES[model_type].computed if model_type in FAMILIES else {}
    for name, values in computed.items():
        if fields.get(name) is not None and fields[name] not in values:
            expected = " or ".join(map(json.dumps, values)) or "nothing"
            raise _config_error(path, name, fields[name], expected)
    if fields.get("quantization_config"):
        raise _config_error(path, "quantization_config", method, "weights that are not quantized")
    return fields


def find_pooling(read: Callable[[str], str | None]) -> Pooling | None:
    """Return "mean" if the files of sentence-transformers name mean pooling, else None.

    Args:
        read: returns the text of one of the model's files, or None if there is no such file.

    Raises:
        SubtuneError: a file is not what sentence-transformers writes.
    """
    with one_line(f"{MODULES} or the {MODULE_CONFIG} of a module that it lists cannot be read"):
        for part in json.loads(read(MODULES) or "[]"):
            if part["type"].endswith(".Pooling"):
                fields = json.loads(read(f"{Path(part['path']).name}/{MODULE_CONFIG}") or "{}")
                modes = [name for name, value in fields.items() if "_mode_" in name and value]
                # Since version 6 of sentence-transformers one field names the mode.
                if modes == ["pooling_mode_mean_tokens"] or fields.get("pooling_mode") == "mean":
                    return "mean"
    return None


def read_pooling(directory: Path) -> Pooling | None:
    """Return the `find_pooling` of a model in a local directory."""

    def read(name: str) -> str | None:
        path = directory / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return find_pooling(read)


def choose_head(pooling: Pooling | None, head: str, model_type: str) -> str:
    """Return a model's head for a task.

    Args:
        pooling: the model's pooling; default: the one of transformers' class.
        head: the head of the task's kind.
        model_type: the family's name in ``config.json``.
    """
    if pooling != "mean" or head != SEQUENCE_CLASSIFICATION:
        return head
    return head if family_naming(model_type).pooling_field else MEAN_CLASSIFICATION


def longest_text(config: Mapping[str, Any]) -> int:
    """Return the largest number of tokens that a model can read, special tokens included."""
    model_type = config["model_type"]
    fields = {**FAMILIES[model_type].defaults, **config} if model_type in FAMILIES else config
    positions = next((fields[name] for name in POSITIONS if fields.get(name)), MANY)
    return positions - first_position(model_type, fields.get("pad_token_id", PADDING))


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model has token types."""
    return config.get("type_vocab_size", 1) > 1


def has_one_end(config: Mapping[str, Any], head: str) -> bool:
    """Return whether a head refuses texts with several end-of-text tokens, because it reads one."""
    return config.get("is_encoder_decoder", False) and head == SEQUENCE_CLASSIFICATION


def _config_error(path: Path, field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{path}: {field}: found {json.dumps(value)}, expected {expected}")


@dataclass(frozen=True)
class OtherDimensions:
    """The dimensions of a model outside the packed families, with the interface of `Dimensions`.

    Importing transformers takes seconds, so planning imports it only if a model needs it.

    Attributes:
        directory: the directory of the model's configuration.
        model_type: the family's name in ``config.json``.
        first_head: the first head that transformers has for the model.
        is_decoder: whether a token reads only the tokens before it.
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
        """Return the shape of every parameter of the model with a head, by canonical name.

        Raises:
            SubtuneError: weights in the directory do not match the configuration.
        """
        from subtune.models.transformers_models import read_shapes

        return read_shapes(self.directory, outputs, head)

    @property
    def parameters(self) -> int:
        """The number of pretrained parameters: all but the classifier's."""
        shapes = self.shapes(1, self.first_head)
        return sum(math.prod(shape) for name, shape in shapes.items() if not is_classifier(name))

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Return the number of floating-point operations of one example's forward pass.

        Every one of its ``tokens`` passes through all matrices except embedding tables.
        """
        read = sum(
            math.prod(shape)
            for name, shape in self.shapes(1, head).items()
            if len(shape) > 1 and not is_embedding(name)
        )
        return tokens * (2 * read + 4 * tokens * self.hidden_size * self.num_hidden_layers)


AnyDimensions = Dimensions | OtherDimensions
# Bytes per number of a trained matrix: its value, its gradient, the optimiser's two averages and
# the best epoch's value in float32, and its value and gradient in bfloat16.
BYTES_OF_TRAINED = 5 * 4 + 2 * 2


def numbers_per_token(dimensions: AnyDimensions) -> int:
    """Return how many numbers a layer stores per token for the backward pass.

    The numbers of attention scores are not counted. ``dimensions`` may also be transformers'
    configuration of a model.
    """
    hidden = dimensions.hidden_size
    # Some of transformers' configurations have no such field.
    intermediate = getattr(dimensions, "intermediate_size", None) or 4 * hidden
    return 8 * hidden + 3 * intermediate


def bytes_per_run(dimensions: AnyDimensions, tokens: float, trained: int) -> float:
    """Estimate the memory that each of several runs side by side needs on a GPU.

    Args:
        dimensions: the model's dimensions, or transformers' configuration of it.
        tokens: the number of tokens of a large batch.
        trained: how many numbers the run's trained matrices have; 0 if only vectors train.
    """
    stored = tokens * dimensions.num_hidden_layers * numbers_per_token(dimensions)
    return 4 * stored + BYTES_OF_TRAINED * trained


@cache
def _peft_shapes(
    dimensions: AnyDimensions, settings: PeftSettings, outputs: int, head: str
) -> dict[str, Shape]:
    # Importing PEFT takes seconds, so planning imports it only if a method needs it.
    from subtune.models import peft, transformers_models

    if isinstance(dimensions, Dimensions):
        config = transformers_models.make_config(dimensions, outputs)
        family, shapes = dimensions.family, dimensions.shapes(1, head)
        names = {name: family.exported_name(name, head) for name in shapes}
        return peft.peft_shapes(config, head, settings, names)
    config = transformers_models.read_transformers_config(dimensions.directory, outputs)
    return peft.peft_shapes(config, head, settings)


def shapes_with_added(
    selection: Selection,
    dimensions: AnyDimensions,
    outputs: int,
    head: str = SEQUENCE_CLASSIFICATION,
) -> dict[str, Shape]:
    """Return the shapes of a model's parameters, and of those that a selection adds to it.

    Raises:
        SubtuneError: PEFT cannot inject the selection's modules into the model.
    """
    if isinstance(selection, Peft):
        return _peft_shapes(dimensions, selection.peft, outputs, head)
    shapes = dimensions.shapes(outputs, head)
    if isinstance(selection, Adapter) and isinstance(dimensions, Dimensions):
        layers, width = dimensions.num_hidden_layers, dimensions.hidden_size
        return selection.adapter.shapes(layers, width) | shapes
    return shapes


def papers_models() -> dict[str, Dimensions]:
    """Return the dimensions of the papers' models, by name."""
    return {
        name: FAMILIES[fields["model_type"]].dimensions(fields)
        for name, fields in read_package_yaml("subtune.models", "sizes.json").items()
    }


def known_dimensions(name_or_path: str) -> AnyDimensions | None:
    """Return the dimensions of a local model, or of one of the papers' models.

    Other models on the hub would have to be downloaded. Their dimensions are None.
    """
    if (Path(name_or_path) / CONFIG).is_file():
        return read_dimensions(Path(name_or_path))
    return papers_models().get(name_or_path.rpartition("/")[2])


def read_dimensions(directory: Path) -> AnyDimensions:
    """Return the dimensions of the model in a local directory; its weights are not needed.

    Raises:
        SubtuneError: there is no readable configuration, or transformers has no head for the model.
    """
    fields = read_config(directory)
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
    """Count the parameters that each method trains in each model.

    The classifier always trains. Counts include it, but the share does not (as in BitFit, Table 1):
    the classifier's size varies between families by more parameters than some methods train.

    Returns:
        A table with one row per model and method, and these columns:

        * ``model``, ``method``
        * ``parameters``: the number of trained parameters, with the classifier's
        * ``classifier``: the number of the classifier's parameters
        * ``share``: the share of the pretrained parameters that train
        * ``problem``: why the method does not fit the model; then the numbers are missing
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
                shapes = shapes_with_added(selection, dimensions, outputs, head)
                row["parameters"] = count_trained(selection.resolve(shapes, seed=0), shapes)
                row["share"] = (row["parameters"] - classifier) / pretrained
            except SubtuneError as error:
                row["problem"] = str(error)
            rows.append(row)
    columns = ["model", "method", "parameters", "classifier", "share", "problem"]
    return pd.DataFrame(rows, columns=columns).astype({"parameters": "Int64"})

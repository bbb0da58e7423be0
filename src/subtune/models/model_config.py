"""Properties of a model that are known without its weights: configuration and dimensions."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.files import read_package_yaml
from subtune.methods import Selection
from subtune.methods.added import Adapters, Peft, PeftSettings
from subtune.methods.roles import (
    Shape,
    family_naming,
    first_position,
    is_classifier,
    is_embedding,
    split_name,
)
from subtune.methods.selection import count_trained_parameters
from subtune.models.families import (
    FAMILIES,
    MEAN_CLASSIFICATION,
    SEQUENCE_CLASSIFICATION,
    Dimensions,
)
from subtune.models.folders import CONFIG, format_missing_config

if TYPE_CHECKING:
    import pandas as pd

# The default padding id of RoBERTa and similar models.
PADDING = 1
# The number of positions if a model's configuration does not limit it.
UNLIMITED_POSITIONS = 1 << 20
# Files of sentence-transformers: the list of a model's modules, the configuration of one module,
# and a pattern for the configuration of the pooling module.
MODULES, MODULE_CONFIG, POOLING = "modules.json", "config.json", "*_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"
# The suffix of the names of pooling modules.
POOLED = " pooling"
# The input of a sequence classifier: the first hidden state, or the mean of all hidden states.
Pooling = Literal["first", "mean"]
NO_POOLING = (
    "pooling: found {!r} for a decoder; remove this setting, because only the last token of a "
    "decoder attends to the whole text"
)
# If the name of a model type contains one of these strings, transformers does not draw the
# classifier from a normal distribution with standard deviation ``initializer_range``.
OWN_INITIALISATION = ("funnel", "modernbert", "modernvbert", "t5")
# The config field for the maximum number of positions has one of these names, depending on the
# model.
POSITIONS = ("max_position_embeddings", "n_positions")


def read_model_config(directory: Path) -> dict[str, Any]:
    """Read the fields of a model's ``config.json``, and check that subtune can train the model."""
    path = directory / CONFIG
    if not path.is_file():
        raise SubtuneError(format_missing_config(directory))
    with convert_errors(f"{path} is not a model configuration"):
        fields = json.loads(path.read_text())
        model_type = fields.get("model_type")
        method = (fields.get("quantization_config") or {}).get("quant_method")
    if not isinstance(model_type, str):
        raise _config_error(path, "model_type", model_type, "the name of a model type")
    # Reject values that subtune's forward pass does not support.
    computed = FAMILIES[model_type].computed if model_type in FAMILIES else {}
    for name, values in computed.items():
        if fields.get(name) is not None and fields[name] not in values:
            expected = " or ".join(map(json.dumps, values)) or "nothing"
            raise _config_error(path, name, fields[name], expected)
    if fields.get("quantization_config"):
        raise _config_error(path, "quantization_config", method, "weights that are not quantized")
    return fields


def find_pooling(read: Callable[[str], str | None]) -> Pooling | None:
    """Find the pooling of a sentence-transformers model; None for another pooling or kind of model.

    ``read`` returns the text of one of the model's files, or None if the file does not exist.
    """
    poolings: dict[str, Pooling] = {"mean pooling": "mean", "cls pooling": "first"}
    found = [name for name in _list_modules(read) if name.endswith(POOLED)]
    return poolings.get(found[0]) if len(found) == 1 else None


def _list_modules(read: Callable[[str], str | None]) -> list[str]:
    """List a sentence-transformers model's modules: types, or modes such as ``mean pooling``."""
    modules = []
    with convert_errors(
        f"cannot read {MODULES}, or the {MODULE_CONFIG} of a module that {MODULES} lists"
    ):
        for part in json.loads(read(MODULES) or "[]"):
            name = part["type"].rpartition(".")[2]
            if name == "Pooling":
                fields = json.loads(read(f"{Path(part['path']).name}/{MODULE_CONFIG}") or "{}")
                # Since version 6, sentence-transformers stores the pooling mode in one field.
                modes = fields.get("pooling_mode") or [
                    name.removeprefix("pooling_mode_").removesuffix("s").removesuffix("_token")
                    for name, value in fields.items()
                    if name.startswith("pooling_mode_") and value
                ]
                modes = [modes] if isinstance(modes, str) else modes
                name = (" and ".join(modes) or "unknown") + POOLED
            modules.append(name)
    return modules


def list_parts_left_out(directory: Path, is_decoder: bool) -> list[str]:
    """List the parts of a local sentence-transformers model that subtune does not compute."""
    read = partial(_read_text_if_any, directory)
    # Normalisation and dropout have no parameters.
    computed = {"Transformer", "Normalize", "Dropout", f"mean{POOLED}"}
    computed.add(f"{'lasttoken' if is_decoder else 'cls'}{POOLED}")
    modules = _list_modules(read)
    others = [name for name in modules if name not in computed]
    parts = [name if name.endswith(POOLED) else f"the module {name}" for name in others]
    with convert_errors(f"cannot read {directory / PROMPTS}"):
        settings = json.loads((modules and read(PROMPTS)) or "{}")
        if settings.get("default_prompt_name"):
            parts.append(f"the prompt {settings['prompts'][settings['default_prompt_name']]!r}")
    return parts


def read_pooling(directory: Path) -> Pooling | None:
    """Find the pooling of a model in a local directory. See `find_pooling`."""
    return find_pooling(partial(_read_text_if_any, directory))


def _read_text_if_any(directory: Path, name: str) -> str | None:
    path = directory / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def choose_head(pooling: Pooling | None, head: str, model_type: str) -> str:
    """Choose the head for a pooling, given the usual head for the kind of task."""
    if pooling != "mean" or head != SEQUENCE_CLASSIFICATION:
        return head
    return head if family_naming(model_type).pooling_field else MEAN_CLASSIFICATION


def has_own_initialisation(name: str) -> bool:
    """Return whether a model type or repository name contains a string in `OWN_INITIALISATION`."""
    return any(part in name.lower() for part in OWN_INITIALISATION)


def longest_text(config: Mapping[str, Any]) -> int:
    """Compute the largest number of tokens that a model can read, including special tokens."""
    model_type = config["model_type"]
    fields = {**FAMILIES[model_type].defaults, **config} if model_type in FAMILIES else config
    positions = next((fields[name] for name in POSITIONS if fields.get(name)), UNLIMITED_POSITIONS)
    return positions - first_position(model_type, fields.get("pad_token_id", PADDING))


def has_token_types(config: Mapping[str, Any]) -> bool:
    """Return whether a model distinguishes token types, as BERT does for the texts of a pair."""
    return config.get("type_vocab_size", 1) > 1


def needs_single_eos_token(config: Mapping[str, Any], head: str) -> bool:
    """Return whether a text needs exactly one EOS token, which encoder-decoder classifiers read."""
    return config.get("is_encoder_decoder", False) and head == SEQUENCE_CLASSIFICATION


def _config_error(path: Path, field: str, value: object, expected: str) -> SubtuneError:
    return SubtuneError(f"{path}: {field}: found {json.dumps(value)}, expected {expected}")


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
    from subtune.models import peft, transformers_models

    if isinstance(dimensions, Dimensions):
        config = transformers_models.make_config(dimensions, outputs)
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
        name: FAMILIES[fields["model_type"]].dimensions(fields)
        for name, fields in read_package_yaml("subtune.models", "sizes.json").items()
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

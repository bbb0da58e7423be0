"""Loading a pretrained model from a directory."""

from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig

from subtune.core.errors import one_line
from subtune.families import is_packed
from subtune.families.base import is_classifier
from subtune.models.configuration import CONFIG, read_config
from subtune.models.dimensions import dimensions_by
from subtune.models.encoder import Encoder
from subtune.models.files import weights_of
from subtune.models.pretrained import stored_names


def load_model(directory: Path, head: str, outputs: int) -> Encoder:
    """Return pretrained weights in float32 with a classifier of zeros; nothing is downloaded.

    Args:
        directory: of the model's files.
        head: its name in `subtune.families.base`.
        outputs: the head's width.

    Raises:
        SubtuneError: a weight is missing or cannot be read.
    """
    fields = read_config(directory)
    if not is_packed(fields["model_type"]):
        # Transformers' model code takes seconds to import; packed families do not need it.
        from subtune.models import transformers_models

        return transformers_models.load(directory, head, outputs)
    dimensions = dimensions_by(fields)
    stored = stored_names(weights_of(directory), dimensions)
    with ExitStack() as stack:
        files = {
            path: stack.enter_context(safe_open(path, framework="pt"))
            for path in {of.path for of in stored.values()}
        }
        parameters = {
            name: torch.zeros(shape)
            if is_classifier(name)
            else files[stored[name].path].get_tensor(stored[name].name).to(torch.float32, copy=True)
            for name, shape in dimensions.shapes(outputs, head).items()
        }
    with one_line(f"{directory / CONFIG} cannot be read"):
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
    return Encoder(config, parameters, head)

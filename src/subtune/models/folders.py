"""Error messages for folders that a user passes as a model, but that contain no model."""

import json
from contextlib import suppress
from pathlib import Path

# The configuration files of transformers and PEFT, and the spec of an exported run.
CONFIG, ADAPTER, SPEC = "config.json", "adapter_config.json", "subtune.json"
# Patterns of the subfolders that are searched for models.
SUBFOLDER_PATTERNS = ("*", "*/*", "*/*/*")


def format_missing_config(directory: Path) -> str:
    """Say what a folder without ``config.json`` contains, and which folder to use as the model."""
    if (directory / ADAPTER).is_file():
        base = _read_field(directory / ADAPTER, "base_model_name_or_path")
        return (
            f"{str(directory)!r} is a PEFT adapter, not a whole model; use its base model"
            f"{f' ({base})' if base else ''}, or a merged model written by `subtune export` "
            "(without --adapter) or with PEFT's `merge_and_unload`"
        )
    models = [
        path.parent
        for depth in SUBFOLDER_PATTERNS
        for path in directory.glob(f"{depth}/{CONFIG}")
        if _read_field(path, "model_type")
    ]
    advice = "use a folder written by transformers' `save_pretrained`"
    if (directory / "runs").is_dir():
        advice = "these are subtune's results; `subtune export RUN --to FOLDER` writes a model"
    elif models:
        newest = max(models, key=lambda model: (model / CONFIG).stat().st_mtime)
        others = f" (and {len(models) - 1:,} more)" if len(models) > 1 else ""
        advice = f"use a model folder inside it: {newest}{others}"
    return f"found no {CONFIG} in {str(directory)!r}; {advice}"


def _read_field(path: Path, name: str) -> str | None:
    """Read a field of a JSON file; None if the field is not a string or cannot be read."""
    with suppress(OSError, ValueError, AttributeError):
        value = json.loads(path.read_text(encoding="utf-8")).get(name)
        return value if isinstance(value, str) else None
    return None

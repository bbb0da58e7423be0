"""What a folder without a model's configuration is, and what to type in its place."""

import json
from contextlib import suppress
from pathlib import Path

# Files of transformers and of PEFT, and the spec of an exported run.
CONFIG, ADAPTER, SPEC = "config.json", "adapter_config.json", "subtune.json"
# The folders in which a model may lie below a folder that is named in its place.
SUBFOLDER_PATTERNS = ("*", "*/*", "*/*/*")


def explain_missing_config(directory: Path) -> str:
    """Return a line about a folder that was named as a model but has no configuration."""
    if (directory / ADAPTER).is_file():
        base = _read_field(directory / ADAPTER, "base_model_name_or_path")
        own = (directory / SPEC).is_file()
        merge = "`subtune export` without --adapter" if own else "PEFT's `merge_and_unload`"
        return (
            f"{str(directory)!r} is a PEFT adapter, not a whole model; name its base, "
            f"{base or 'the pretrained model'}, or a folder that {merge} wrote"
        )
    models = [
        path.parent
        for depth in SUBFOLDER_PATTERNS
        for path in directory.glob(f"{depth}/{CONFIG}")
        if _read_field(path, "model_type")
    ]
    kind, remedy = "", "expected a folder that transformers' `save_pretrained` wrote"
    if models:
        newest = max(models, key=lambda model: (model / CONFIG).stat().st_mtime)
        others = f" (and {len(models) - 1:,} more)" if len(models) > 1 else ""
        remedy = f"expected a folder inside it: {newest}{others}"
    if (directory / "snapshots").is_dir():
        kind = ", which is a model's folder in the hub's cache"
    elif (directory / "modules.json").is_file():
        kind = ", which is an older folder of sentence-transformers"
    elif (directory / "runs").is_dir():
        kind = ", which has subtune's results"
        remedy = "expected the folder of a model: `subtune export RUN --to FOLDER` writes one"
    return f"found no {CONFIG} in {str(directory)!r}{kind}; {remedy}"


def _read_field(path: Path, name: str) -> str | None:
    """Return a field of a JSON file, or None if it is no text."""
    with suppress(OSError, ValueError, AttributeError):
        value = json.loads(path.read_text(encoding="utf-8")).get(name)
        return value if isinstance(value, str) else None
    return None

"""The text of a first configuration, with comments on what to change."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from subtune.config.schema import Assumptions
from subtune.core.errors import SubtuneError
from subtune.init.choosing import Settings
from subtune.init.defaults import DEFAULTS
from subtune.init.models import StartingModel
from subtune.tasks import Task
from subtune.tasks.formats.paths import is_directory

# Name of the only experiment. The name of a paper would make the paper's tables.
EXPERIMENT = "mine"


def text_of(
    command: str,
    task: Task,
    files: Mapping[str, str],
    model: StartingModel,
    settings: Settings,
    remarks: Mapping[str, str],
    runs_per_job: int,
    assumptions: Assumptions,
) -> str:
    """Return the whole file.

    Args:
        command: the command that trains it.
        files: path of each split.
        remarks: comments on some keys, without the number sign.
        assumptions: estimated speed of this machine.
    """
    name, of_model = quoted(task.name), quoted(model.name)
    lines = [
        "# Written by `subtune init`. Train it with",
        f"#   {command}",
        "# in the folder that the paths below begin in.",
        f"results: {quoted('results/' + task.name)}",
        "models:",
        f"  {of_model}:",
        f"    {model.source}: {quoted(model.reference)}  # {remarks['model']}",
        "tasks:",
        f"  {name}:",
        "    files:",
        *(f"      {split}: {quoted(path)}" for split, path in files.items()),
        f"    text: {_list(task.text)}  # one column, or the two of a pair",
        f"    label: {quoted(task.label)}",
    ]
    if task.labels:
        lines.append(f"    labels: {_list(task.labels)}  # without this line a number is predicted")
    lines += [
        f"    metrics: {_list(task.metrics)}  # {remarks['metrics']}",
        "experiments:",
        f"  {EXPERIMENT}:",
        f"    models: [{of_model}]",
        f"    tasks: [{name}]",
        "    methods:  # each with the learning rates that it is tried with",
    ]
    for method, rates in settings.methods.items():
        listed = ", ".join(map(_rate, rates))
        lines.append(f"      {quoted(method)}: [{listed}]  # {DEFAULTS.methods[method].trains}")
    lines += [
        f"    seeds: [{', '.join(map(str, settings.seeds))}]  # {remarks['seeds']}",
        f"    epochs: {settings.epochs}  # {remarks['epochs']}",
        f"    batch_size: {settings.batch_size}",
        f"    max_length: {settings.max_length}  # {remarks['max_length']}",
        f"    schedule: {DEFAULTS.schedule}",
        f"    warmup: {DEFAULTS.warmup}",
        f"runs_per_job: {runs_per_job}  # as many jobs as train at once here",
    ]
    teraflops = ", ".join(f"{key}: {rate}" for key, rate in assumptions.teraflops.items())
    lines += [
        "assumptions:  # of this machine, an estimate for `subtune plan`: no result depends on it",
        f"  device: {quoted(assumptions.device)}",
        f"  teraflops: {{{teraflops}}}",
        f"  milliseconds_per_layer: {assumptions.milliseconds_per_layer}",
        f"  start_minutes: {assumptions.start_minutes}",
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Return a text as YAML, in quotation marks where YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def _rate(number: float) -> str:
    # YAML needs a decimal point in numbers with an exponent.
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits}e{int(exponent)}"


def require_free(path: Path) -> None:
    """Check that a file can be written here, before any other work.

    Raises:
        SubtuneError: the file exists, or its folder does not.
    """
    if os.path.lexists(path):
        raise SubtuneError(f"--to: {path} is there already; move it away or name another file")
    if not is_directory(path.parent):
        raise SubtuneError(f"--to: found no directory {str(path.parent)!r}")


def write(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        SubtuneError: the file exists, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = (error.strerror or "cannot be written").lower()
        raise SubtuneError(f"--to: cannot write {path}: {reason}") from None

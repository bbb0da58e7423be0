"""The text of a first configuration, with comments on what to change."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from subtune.config.schema import Assumptions
from subtune.core.errors import SubtuneError
from subtune.init.choosing import Settings
from subtune.init.defaults import DEFAULTS
from subtune.tasks import Task

# Name of the only experiment. The name of a paper would make the paper's tables.
EXPERIMENT = "mine"
# A product in bf16 is so many times as fast as in fp32, at least, where hardware multiplies bf16.
NATIVE = 1.3


def text_of(task: Task, settings: Settings, assumptions: Assumptions, **others: Any) -> str:
    """Return the whole file, from the template beside this module.

    Args:
        assumptions: estimated speed of this machine.
        others: the template's ``command`` (which trains it), ``results`` (their directory),
            ``files`` (path of each split), ``model`` (as `subtune.init.models` returns it),
            ``rows`` (that a run can train on), ``folds`` (None with dev rows), ``cut_share`` (of
            the texts, in words), ``at_once`` (jobs that train at the same time), ``margin`` (of the
            answer).
    """
    metrics = [metric for metric in task.of_kind.metrics if metric not in task.metrics]
    teraflops = assumptions.teraflops
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.init", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"quoted": quoted, "rates": _rates}
    return environment.get_template("first_configuration.yaml").render(
        others,
        task=task,
        settings=settings,
        assumptions=assumptions,
        steps=-(-settings.train_rows // settings.batch_size) * settings.epochs,
        other_metrics=[m for m in metrics if m != "f1" or task.outputs == 2],
        experiment=EXPERIMENT,
        precision="bf16" if teraflops["bf16"] > NATIVE * teraflops["fp32"] else "fp32",
        defaults=DEFAULTS,
    )


def quoted(text: str) -> str:
    """Return a text as YAML, in quotation marks where YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written


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

"""All that can be known of a configuration before anything runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from subtune.config import Config
from subtune.core.errors import SubtuneError, cut
from subtune.planning.plan import Plan, plan
from subtune.planning.submissions import form


class Preflight(NamedTuple):
    """The plan of every stage, and the scores that the GLUE server will return.

    ``forms`` has the rows of `subtune.planning.submissions.form` of all experiments.
    """

    plan: Plan
    forms: list[dict[str, Any]]


def require_no_braces(directory: str) -> None:
    """Refuse a directory of the workflow whose name Snakemake would fill in.

    Raises:
        SubtuneError: it has braces.
    """
    if set(directory) & set("{}"):
        raise SubtuneError(f"{directory}: found a brace, which Snakemake fills in, expected none")


def preflight(config: Config, metrics: Mapping[str, Mapping[str, str]]) -> Preflight:
    """Lay out all that a configuration asks for; its files and models are looked at.

    Args:
        config: the configuration.
        metrics: experiments to the metrics of those tasks that are not judged by their first.

    Raises:
        SubtuneError: something that it names is missing, or not what it should be.
    """
    _require_place(Path(config.results))
    planned = plan(config)
    forms = [
        row for name in config.experiments for row in form(config, name, metrics.get(name, {}))
    ]
    return Preflight(planned, forms)


def _require_place(results: Path) -> None:
    """Refuse results that cannot be a directory here, as a file stands in their place or above."""
    try:
        os.fsencode(results)
    except UnicodeEncodeError:
        raise SubtuneError(
            f"results: found {str(results)!r}, which has letters that this locale lacks; set "
            "PYTHONUTF8=1"
        ) from None
    for place in (results, *results.parents):
        try:
            is_directory = place.is_dir()
            is_there = place.exists()
        except OSError as error:  # of a name that no file system takes
            raise SubtuneError(f"results: {cut(str(results))}: {error.strerror}") from None
        if is_directory:
            return
        if is_there:
            raise SubtuneError(f"results: found the file {str(place)!r}, expected a directory")

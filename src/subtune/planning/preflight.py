"""All that can be known of a configuration before anything runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subtune.config import Config
from subtune.core.errors import SubtuneError, cut
from subtune.planning.plan import Plan, plan
from subtune.planning.submissions import form


def require_no_braces(directory: str) -> None:
    """Refuse a directory of the workflow whose name Snakemake would fill in.

    Raises:
        SubtuneError: it has braces.
    """
    if set(directory) & set("{}"):
        raise SubtuneError(f"{directory}: found a brace, which Snakemake fills in, expected none")


def preflight(
    config: Config, metrics: Mapping[str, Mapping[str, str]]
) -> tuple[Plan, list[dict[str, Any]]]:
    """Return the plan of every stage, and the rows of every experiment's `form` for the server.

    The files and models that the configuration names are looked at. ``metrics`` maps experiments
    to the metrics of those tasks that are not judged by their first.

    Raises:
        SubtuneError: something that it names is missing, or not what it should be.
    """
    _require_place(Path(config.results))
    forms = [
        row for name in config.experiments for row in form(config, name, metrics.get(name, {}))
    ]
    return plan(config), forms


def _require_place(results: Path) -> None:
    """Refuse results that cannot be a directory here, as a file stands in their place or above."""
    try:
        nearest = next(place for place in (results, *results.parents) if place.exists())
        is_directory = nearest.is_dir()
    except OSError as error:  # of a name that no file system takes
        raise SubtuneError(f"results: {cut(str(results))}: {error.strerror}") from None
    if not is_directory:
        raise SubtuneError(f"results: found the file {str(nearest)!r}, expected a directory")

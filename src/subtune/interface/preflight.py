"""All that can be known of a configuration before anything runs."""

from pathlib import Path
from typing import Any

from subtune.config import Config
from subtune.core.errors import SubtuneError, cut, one_line
from subtune.papers.experiments import metrics_of, with_papers
from subtune.planning.jobs import form
from subtune.planning.plan import Plan, plan


def preflight(config: Config) -> tuple[Config, Plan, list[dict[str, Any]]]:
    """Return the configuration with its papers, its plan, and the forms for the GLUE server.

    The files and models that it names are looked at. The rows of all experiments' forms are those
    of `subtune.planning.jobs.form`.

    Raises:
        SubtuneError: something that it names is missing, or not what it should be.
    """
    _require_place(Path(config.results))
    config = with_papers(config)
    metrics = metrics_of(config)
    forms = [row for name in config.experiments for row in form(config, name, metrics[name])]
    planned = plan(config)
    if config.test_scores:
        # Importing pandas takes a while.
        from subtune import glue_server

        glue_server.returned_scores(Path(config.test_scores), forms)
    return config, planned, forms


def _require_place(results: Path) -> None:
    """Refuse results that cannot be a directory here, as a file stands in their place or above."""
    with one_line(f"results: {cut(str(results))}"):  # No file system takes every name.
        nearest = next(place for place in (results, *results.parents) if place.exists())
        is_directory = nearest.is_dir()
    if not is_directory:
        raise SubtuneError(f"results: found the file {str(nearest)!r}, expected a directory")

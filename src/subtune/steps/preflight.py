"""Checks of the files and models that a configuration names, before any work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from subtune.config import Config
from subtune.core.errors import placed
from subtune.core.layout import Layout
from subtune.data.sources import find_files
from subtune.exhibits.glue_server import read_test_scores, scores_of_server
from subtune.models.tokenizer import read_tokenizer, unknown_lines, unknown_share
from subtune.papers import experiments
from subtune.plan.plan import Plan, make_plan
from subtune.runs.spec import DataSpec


def preflight(config: Config) -> tuple[Config, Plan]:
    """Return the configuration with its papers, and its plan.

    Check the files and models that the configuration names.

    Raises:
        SubtuneError: a file or model is missing or wrong.
    """
    config = experiments.with_papers(config)
    planned = make_plan(config)
    if config.test_scores:
        read_test_scores(Path(config.test_scores), scores_of_server(config))
    return config, planned


def try_tokenizers(planned: Plan) -> Iterator[str]:
    """Yield a line for each local model and table with many unknown tokens.

    Raises:
        SubtuneError: a tokenizer cannot be read, or has no token for any word of a table.
    """
    for name, model in planned.model_ids.items():
        if planned.models[model].source != "files":
            continue
        directory = Path(planned.locations[model])
        rows = {tokens.data.key for tokens in planned.tokens.values() if tokens.tokenizer == model}
        with placed(f"models.{name}"):
            tokenizer = read_tokenizer(directory)
            for key in sorted(rows):
                share = unknown_share(tokenizer, planned.sizes[key].sample, directory)
                yield from (f"models.{name}: {line}" for line in unknown_lines(share))


def named_files(config: Config, plan: Plan) -> set[Path]:
    """Return the files and model directories on which a plan depends, with pinned commits."""
    found = {Path(Layout(config.results).pinned())}
    if config.test_scores:
        found.add(Path(config.test_scores))
    for rows in plan.datasets.values():
        places = places_of(config, rows)
        paths = {*find_files(rows.task, rows.source, rows.splits, **places).values()}
        found |= paths
        if official := places["glue_dir"] or places["directory"]:
            # A test file that is added later changes its folder.
            found |= {Path(official), *(path.parent for path in paths)}
    for model, spec in plan.models.items():
        if spec.source == "files":
            directory = Path(plan.locations[model])
            found |= {directory, *directory.rglob("*")}
    return found


def places_of(config: Config, spec: DataSpec) -> dict[str, Any]:
    """Return where the files of a task's rows are."""
    own = config.tasks.get(spec.task.name)
    return {
        "glue_dir": config.glue_dir if spec.source == "tsv" else None,
        "files": {split: own.files[split] for split in spec.splits} if own else {},
        "directory": config.directories.get(spec.task.name),
    }

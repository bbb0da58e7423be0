"""Models that cross-validation gives to take home: trained once more, on the rows of all folds."""

import csv
from pathlib import Path

from subtune import config
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface import workflow
from subtune.runs import records


def refitted(results: Path, run: str, configuration: Path, directory: Path) -> str:
    """Return the run to export for a run: its own, or after cross-validation that on all rows.

    Snakemake trains the latter, unless it is there.

    Args:
        configuration: that of the run.
        directory: the folder in which its paths begin.

    Raises:
        SubtuneError: the run has no chosen learning rate, or training failed.
    """
    layout = Layout(str(results))
    store = Path(layout.records())
    if records.read_spec(store, run).recipe.fold is None:
        return run
    names = _place(results, run)
    made = Path(layout.refit(*names))
    if made.is_file() and not records.is_recorded(store, _run_in(made)):
        # Its record was set aside as damaged.
        made.unlink()
    if not configuration.is_file():
        raise SubtuneError(
            f"run {run} is one of cross-validation, whose method now trains once more on all rows: "
            f"found no {configuration}, expected the configuration of the run as --config"
        )
    target = Layout(config.read(configuration).results).refit(*names)
    workflow.train_all(configuration, results, [], directory, [target])
    return _run_in(made)


def _place(results: Path, run: str) -> tuple[str, str, str, str]:
    """Return the experiment in which a run was chosen, its model, task and method."""
    # Importing pandas takes a while.
    from subtune.analysis.scores import read_scores

    for path in sorted(results.glob(Layout(".").data("*", "chosen"))):
        for row in read_scores(path).to_dict("records"):
            if row["run"] == run:
                return path.parents[1].name, row["model"], row["task"], row["method"]
    raise SubtuneError(
        f"run {run} is one of cross-validation that no table shows, expected one with the chosen "
        f"learning rate of its method, as in experiments/*/data/chosen.csv in {results}"
    )


def _run_in(table: Path) -> str:
    with table.open(encoding="utf-8") as file:
        return next(csv.DictReader(file))["run"]

"""Table of costs: runs, jobs, operations, hours and disk space of each experiment."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pandas as pd

from subtune.config import Config
from subtune.core.layout import Layout
from subtune.planning.cost import Cost, Estimates
from subtune.planning.plan import Plan
from subtune.planning.submissions import submitted_tasks

COLUMNS = ("experiment", "runs", "sweeps", "jobs", "tokens", "flops", "hours", "gigabytes")
TOTAL = "all, each once"


def cost_table(
    config: Config, plan: Plan, estimates: Estimates, with_information: Collection[str]
) -> pd.DataFrame:
    """One row per experiment, and one of all, where what they have in common counts once.

    ``with_information`` names the experiments that show Fisher information.

    Columns: `COLUMNS`. ``jobs`` are those that the Slurm profile submits: one per sweep, one per
    task's Fisher information, one per model that predicts test rows, one for all token ids.
    ``tokens`` are trained on or evaluated, ``flops`` floating-point operations,
    ``hours`` those of the assumed device, ``gigabytes`` what the run records take.
    """
    fishers: dict[str, set[str]] = {}
    tests: dict[str, list[list[str]]] = {}
    for name, experiment in config.experiments.items():
        tasks = submitted_tasks(config, experiment)
        reads = name in with_information or experiment.fractions
        keys = {fisher.key for fisher in plan.experiment_fishers[name].values()}
        fishers[name] = keys if reads else set()
        tests[name] = [
            [run for task in tasks for run in plan.runs_on(name, model, task).values()]
            for model in (experiment.models if tasks else [])
        ]

    def row(
        name: str, runs: set[str], sweeps: Sequence[str], fishers: set[str], tests: list[list[str]]
    ) -> tuple:
        costs = [estimates.run(run) for run in sorted(runs)]
        costs += [estimates.fisher(fisher) for fisher in sorted(fishers)]
        costs += [estimates.test_predictions(predicting) for predicting in tests]
        cost = sum(costs + [estimates.start] * len(sweeps), Cost())
        numbers = len(runs), len(sweeps), len(sweeps) + len(fishers) + len(tests) + 1
        return name, *numbers, cost.tokens, cost.flops, cost.seconds / 3600, cost.bytes / 1e9

    rows = []
    for name in config.experiments:
        runs = {planned.run.id for planned in plan.experiments[name]}
        rows.append(row(name, runs, plan.sweeps_of(name), fishers[name], tests[name]))
    all_fishers = set[str]().union(*fishers.values())
    all_tests = [predicting for jobs in tests.values() for predicting in jobs]
    rows.append(row(TOTAL, set(plan.runs), [*plan.sweeps], all_fishers, all_tests))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def measured(
    layout: Layout, sweeps: Iterable[str], estimates: Estimates
) -> list[tuple[str, float, float]]:
    """Sweeps that are done: key, seconds of the attempt that ended them, estimated seconds."""
    benchmarks = {sweep: Path(layout.benchmark("train", sweep)) for sweep in sweeps}
    return [
        (sweep, float(pd.read_csv(path, sep="\t")["s"].iloc[0]), estimates.sweep(sweep).seconds)
        for sweep, path in benchmarks.items()
        if path.is_file()
    ]

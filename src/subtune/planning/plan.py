"""The plan: all stages of all experiments, as values that follow from a configuration.

Planning looks at no run record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from subtune.config import Config
from subtune.planning.inputs import Grid, Planned
from subtune.planning.jobs import Sweep, split_runs
from subtune.planning.runs import add_experiment
from subtune.selections.specs import Fit, RunSpec
from subtune.tasks.task import TaskSize


@dataclass
class Plan(Grid):
    """All values of all stages by key, and each experiment's runs."""

    sweeps: dict[str, Sweep] = field(default_factory=dict)

    @property
    def has_hub_models(self) -> bool:
        """Return whether some model is downloaded."""
        return any(model.source == "hub" for model in self.models.values())

    def sweeps_of(self, experiment: str) -> list[str]:
        """Return the keys of the sweeps that hold an experiment's runs."""
        runs = {planned.run.id for planned in self.experiments[experiment]}
        return [key for key, sweep in self.sweeps.items() if not runs.isdisjoint(sweep.runs)]

    def first_run(self, sweep: str) -> RunSpec:
        """Return one run of a sweep: all have the same model and tokens."""
        return self.runs[self.sweeps[sweep].runs[0]]

    def runs_on(self, experiment: str, model: str, task: str) -> dict[str, str]:
        """Return an experiment's whole methods that train on a task, each with one run's id."""
        return {
            planned.method: planned.run.id
            for planned in self.experiments[experiment]
            if (planned.model, planned.task, planned.scope) == (model, task, None)
            and not isinstance(planned.run.recipe, Fit)
        }

    def on_most_rows(self, experiment: str) -> list[Planned]:
        """Return an experiment's runs with the most training rows of their model and task."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for planned in runs:
            key = planned.model, planned.task
            largest[key] = max(largest.get(key, 0), planned.train_rows)
        return [p for p in runs if p.train_rows == largest[p.model, p.task]]

    def rankings_of(self, sweep: str) -> list[str]:
        """Return the keys of the rankings that a sweep's masks are taken from."""
        rankings = {self.runs[run].selection.ranking for run in self.sweeps[sweep].runs}
        return sorted(ranking for ranking in rankings if ranking)


def plan(config: Config, sizes: Mapping[str, TaskSize] | None = None) -> Plan:
    """Lay out every stage of every experiment.

    ``sizes`` are those of an earlier plan. Rows of the same content are not read again.

    Raises:
        SubtuneError: a local file that a run needs is missing or of the wrong kind.
    """
    plan = Plan(sizes=dict(sizes or {}))
    for name in config.experiments:
        add_experiment(plan, config, name)
    plan.sweeps = {sweep.key: sweep for sweep in split_runs(plan, config)}
    return plan

"""Training of runs that share a model and a task."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from subtune.models.adapters import with_adapters
from subtune.models.encoder import Encoder, shapes_of
from subtune.selections import Selection
from subtune.selections.adapter import Adapter
from subtune.selections.peft import Peft
from subtune.selections.specs import RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Checkpoints
from subtune.training.recipe import Member
from subtune.training.reports import Report
from subtune.training.run import Result
from subtune.training.sweeps import train_sweep


@dataclass(frozen=True)
class Job:
    """A pretrained model, a task's examples by split, and rankings for masks.

    ``rankings``: ranking id to the rank of every entry. The rest goes to `train_sweep`.
    """

    model: Encoder
    examples: Mapping[str, Examples]
    task: TaskSpec
    rankings: Mapping[str, Mapping[str, np.ndarray]]
    max_side_by_side: int | None
    checkpoints: Checkpoints | None

    def train(
        self, runs: Mapping[str, RunSpec], report: Callable[[Report], None], share: float = 1.0
    ) -> Iterator[tuple[str, Result]]:
        """Train runs, named as in the log, for a share of their steps.

        Yields:
            The name and the result of each run, as soon as it is done.
        """
        # Checkpoints of a share of the steps are not those of the whole run.
        part = "" if share == 1 else f"@{share}"
        # The start of added modules is drawn, so every seed has a model of its own.
        alike: dict[tuple, dict[str, str]] = {}
        for name, spec in runs.items():
            start = (spec.selection, spec.seed) if adds_modules(spec.selection) else ()
            alike.setdefault(start, {})[spec.id + part] = name
        for names in alike.values():
            model = model_of(runs[next(iter(names.values()))], self.model)
            results = train_sweep(
                model,
                self.examples,
                self.task,
                {key: self._member(runs[name], model) for key, name in names.items()},
                report,
                self.max_side_by_side,
                self.checkpoints,
                share,
                names,
            )
            for key, result in results:
                yield names[key], result

    def _member(self, spec: RunSpec, model: Encoder) -> Member:
        ranking = spec.selection.ranking
        ranks = self.rankings[ranking] if ranking else None
        entries = spec.selection.resolve(shapes_of(model), spec.seed, ranks)
        return Member(entries, spec.recipe, spec.seed)


def adds_modules(selection: Selection) -> bool:
    """Return whether a selection puts modules into the model."""
    return isinstance(selection, Adapter | Peft)


def model_of(spec: RunSpec, pretrained: Encoder) -> Encoder:
    """Return the model in which a run trains, with the modules that its selection adds.

    Raises:
        SubtuneError: the model cannot have them.
    """
    match spec.selection:
        case Adapter(adapter=settings) if pretrained.transformers is None:
            return with_adapters(pretrained, settings, spec.seed)
        case Peft(peft=of_peft):
            # Importing PEFT takes seconds, and other runs do not need it.
            from subtune.models.injected import injected

            return injected(pretrained, of_peft, spec.seed)
    return pretrained

"""One metric of the tasks, by its name, as a module that ``evaluate.load`` takes by its path."""

import datasets
import evaluate

from subtune.tasks.metrics.functions import OF_CLASSES, compute


class MetricOfTasks(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        kind = datasets.Value("int64" if self.config_name in OF_CLASSES else "float64")
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions and references, one class or number per example",
            features=datasets.Features({"predictions": kind, "references": kind}),
        )

    def _compute(self, predictions, references) -> dict[str, float]:
        return {self.config_name: compute(self.config_name, predictions, references)}

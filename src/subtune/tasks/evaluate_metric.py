"""The metrics of the tasks, in a module that ``evaluate.load`` can load by its path.

``config_name`` joins a key of `METRICS` and the name of a metric, as in ``classes.accuracy``.
"""

import datasets
import evaluate

from subtune.tasks.metrics import compute_metrics

VALUE_TYPES = {"classes": "int64", "label_sets": "int64", "numbers": "float64", "answers": "string"}


class MetricOfTasks(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        value_type, _ = self.config_name.split(".")
        value = datasets.Value(VALUE_TYPES[value_type])
        value = datasets.List(value) if value_type == "label_sets" else value
        # A question may have several accepted answers.
        reference = datasets.List(value) if value_type == "answers" else value
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions and references, one per example, word or question",
            features=datasets.Features({"predictions": value, "references": reference}),
        )

    def _compute(self, predictions, references) -> dict[str, float]:
        value_type, name = self.config_name.split(".")
        return compute_metrics(value_type, [name], predictions, references)

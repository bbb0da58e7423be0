"""One metric of the tasks as a module that ``evaluate.load`` takes by its path.

Its ``config_name`` is what it compares and its name, such as ``classes.accuracy``.
"""

import datasets
import evaluate

from subtune.tasks.metrics import compute_all

FEATURES = {
    "classes": {name: datasets.Value("int64") for name in ("predictions", "references")},
    "numbers": {name: datasets.Value("float64") for name in ("predictions", "references")},
    "answers": {
        "predictions": datasets.Value("string"),
        "references": datasets.List(datasets.Value("string")),
    },
}


class MetricOfTasks(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        compares, _ = self.config_name.split(".")
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions and references, one per example, word or question",
            features=datasets.Features(FEATURES[compares]),
        )

    def _compute(self, predictions, references) -> dict[str, float]:
        compares, name = self.config_name.split(".")
        return compute_all(compares, [name], predictions, references)

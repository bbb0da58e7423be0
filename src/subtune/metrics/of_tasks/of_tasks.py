"""One metric of the tasks, by its name, as kinds of task have them."""

import datasets
import evaluate
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

# Of classes: labels, then predictions. F1 is of class 1, its macro average of every class there is,
# and 0 where nothing was predicted or found; Matthews correlation is 0 where one class only is
# predicted.
OF_CLASSES = {
    "accuracy": accuracy_score,
    "f1": lambda labels, classes: f1_score(labels, classes, zero_division=0.0),
    "f1_macro": lambda labels, classes: f1_score(
        labels, classes, average="macro", zero_division=0.0
    ),
    "matthews_correlation": matthews_corrcoef,
}
# Of numbers; not a number where all predictions are the same.
OF_NUMBERS = {"pearsonr": pearsonr, "spearmanr": spearmanr}


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
        name = self.config_name
        if name in OF_CLASSES:
            return {name: float(OF_CLASSES[name](references, predictions))}
        return {name: float(OF_NUMBERS[name](predictions, references).statistic)}

"""Spearman rank correlation, which is not a number where all predictions are the same."""

import datasets
import evaluate
from scipy.stats import spearmanr


class SpearmanCorrelation(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions and references, one number per example",
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
        )

    def _compute(self, predictions, references) -> dict[str, float]:
        return {"spearmanr": float(spearmanr(predictions, references).statistic)}

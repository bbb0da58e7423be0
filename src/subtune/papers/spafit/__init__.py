"""SPAFIT: frozen layers, layers with trained biases, and layers with LoRA and trained biases."""

import itertools

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates
from subtune.exhibits.output import ExperimentResults, StyledTable, Table
from subtune.exhibits.score_tables import dev_score_table
from subtune.methods import SELECTION, method_title
from subtune.methods.roles import is_classifier, split_name
from subtune.models.dimensions import count_parameters, read_dimensions
from subtune.papers.paper import Paper, read_claims

# No task has more than three labels.
LABELS = 3


def parameters_table(results: ExperimentResults) -> StyledTable:
    """Build a table of what each method trains, with reproduced and printed parameter counts.

    Consecutive layers in which a method trains the same parameters are a group. ``N1`` is the
    number of the last layer of group 1, from 0. If all layers are one group, the cell is repeated
    for the three groups of the SPAFIT paper.
    """
    models, selections = results.models, results.selections
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    dimensions = {model: read_dimensions(models[model]) for model in models}
    counts = count_parameters(dimensions, selected, LABELS).set_index(["model", "method"])
    millions = counts["parameters"] / 1e6
    deepest = max(dimensions.values(), key=lambda model: model.num_hidden_layers)
    layers: dict[int | None, list[str]] = {}
    for name in itertools.filterfalse(is_classifier, deepest.shapes(LABELS)):
        layers.setdefault(split_name(name).layer, []).append(name)
    outside = layers.pop(None)
    rows = []
    for selection in selected.values():
        texts = [selection.describe(names) for names in layers.values()]
        ends = [n for n, (this, after) in enumerate(itertools.pairwise(texts)) if this != after]
        groups = [texts[end] for end in (*ends, -1)] if ends else texts[:1] * 3
        row = {f"N{number}": str(end) for number, end in enumerate(ends, 1)}
        row |= {f"group {number}": text for number, text in enumerate(groups, 1)}
        rows.append(row | {"outside the layers": selection.describe(outside)})
    table = pd.DataFrame(rows, [*selections]).sort_index(axis=1)
    table.insert(0, "method", [*map(method_title, selections)])
    for model in models:
        table[f"parameters: {model}"] = millions[model].map("{:.2f}M".format)
    for model, printed in results.printed("parameter_counts").groupby("model", sort=False):
        table[f"paper: {model}"] = printed.set_index("method")["printed"]
    return StyledTable(table, wide=dict.fromkeys(table.filter(regex="group|outside"), 0.25))


EXHIBITS = (
    Table(
        "table1",
        "Methods and their parameters",
        "The table shows which parameters each method trains in the three groups of layers and "
        "outside the layers. It also lists their number (in millions, with a classifier for three "
        "labels) and the number in the paper's Table 2. Layers are numbered from 0; N1 and N2 are "
        "the last layers of the first two groups. 'Full BitFit' has the printed number of "
        "parameters; 'Full BitFit, as the text says' trains what the text describes.",
        make=parameters_table,
    ),
    dev_score_table("table2", "Dev scores", ["table2"], not_competing=["full"]),
)


def log_rate_ratio(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Compute ``log(best / learning_rate)`` of best rates, which no shared statistic compares."""
    return np.log(best_rates(chosen, methods) / learning_rate)


PAPER = Paper(
    name="spafit",
    citation="SPAFIT",
    exhibits=EXHIBITS,
    claims=read_claims(__package__, log_rate_ratio),
    metrics={"stsb": "pearsonr", "qqp": "accuracy"},
    # Strata of models with another number of layers.
    more_methods="SPAFIT-.*",
)

"""Which tables and figures each paper has, by the names that the paper gives them."""

from typing import NamedTuple

from subtune.config import Config, Experiment
from subtune.submission.planned import submissions

# Tables that show methods task by task, to the printed scores that stand below ours.
COMPARISONS: dict[str, dict[str, list[str]]] = {
    "layernorm": {"table2": ["table2"]},
    "bitfit": {name: [name] for name in ("table1", "table2", "table3")},
    "bitfit_plus": {
        "figure3": ["figure3", "figure3 (original paper, in parentheses)"],
        "figure7": ["figure3", "figure7 (averages quoted in the text)"],
    },
    "spafit": {"table2": ["table2"]},
}
OTHER_TABLES = {
    "layernorm": ["table1", "table4", "kruskal_wallis"],
    "bitfit": ["table6", "generalisation_gap"],
    "bitfit_plus": ["repeat_variance"],
    "spafit": ["table1"],
}
PAPERS = {
    "layernorm": "LayerNorm: A Key Component in Parameter-Efficient Fine-Tuning "
    "(ValizadehAslani & Liang, 2024)",
    "bitfit": "BitFit (Ben-Zaken et al., 2021)",
    "bitfit_plus": "BitFit+ (Weng et al.)",
    "spafit": "SPAFIT",
}
# What exhibits show, in the order of the papers; those of every paper are around them.
TITLES: dict[str, dict[str, str]] = {
    "layernorm": {
        "figure1": "Change of each component in full fine-tuning",
        "table1": "Components by Fisher information",
        "table2": "Dev scores",
        "table3": "Test scores",
        "kruskal_wallis": "BitFit against LayerNorm",
        "figure2": "Dev score by trained fraction, masks of the task itself",
        "figure3": "Fisher information of LayerNorm, by layer and task",
        "figure4": "Global Fisher information of LayerNorm",
        "figure5": "Dev score by trained fraction, three kinds of mask",
        "table4": "Metrics",
    },
    "bitfit": {
        "table1": "Dev scores of BERT-large, beside other methods",
        "table1_test": "Test scores",
        "table2": "Dev scores by model",
        "figure1": "Change of the biases, RTE",
        "table3": "Parts of the biases, and random parameters",
        "generalisation_gap": "Generalisation gap",
        "table6": "Best learning rates",
        "figure3": "Change of the biases, CoLA",
        "figure4": "Change of the biases, MRPC",
        "figure5": "Change of the biases, STS-B",
    },
    "bitfit_plus": {
        "figure3": "Replications",
        "figure4": "Change of the biases, RTE",
        "figure5": "Change of the biases, MRPC",
        "figure6": "Change of the biases, CoLA",
        "figure7": "Ablations",
        "repeat_variance": "Variance over seeds",
        "figure8": "Change, g_LN1, RTE",
        "figure9": "Change, g_LN2, RTE",
        "figure10": "Change, g_LN1,g_LN2, RTE",
        "figure11": "Change, rand_bias, RTE",
        "figure12": "Change, bitfit without b_m2,b_q, RTE",
        "figure13": "Change, bitfit,g_LN1,g_LN2, RTE",
        "figure14": "Change, b_m2,b_q,g_LN1,g_LN2, RTE",
        "figure15": "Change, b_LN1,b_LN2, RTE",
    },
    "spafit": {"table1": "Methods and their parameters", "table2": "Dev scores"},
}
FIRST = {"claims": "Claims"}
LAST = {
    "reproduction": "Every printed score beside ours",
    "paired_tests": "Pairs of methods",
    "choices": "What was chosen",
    "learning_curves": "Learning curves",
    "submission/contents": "Files for the GLUE server",
}
# Test scores, once the GLUE server has returned some.
TEST_SCORES = {
    "layernorm": {"table3": ["table3"]},
    "bitfit": {"table1_test": ["table1"]},
}
# Of every paper.
COMMON_TABLES = ["claims", "choices", "paired_tests"]


class Changes(NamedTuple):
    """A heat map of how much a method changed the parameters, on one task."""

    method: str
    task: str


CHANGES: dict[str, dict[str, Changes]] = {
    "bitfit": {
        "figure1": Changes("bitfit", "rte"),
        "figure3": Changes("bitfit", "cola"),
        "figure4": Changes("bitfit", "mrpc"),
        "figure5": Changes("bitfit", "stsb"),
    },
    "bitfit_plus": {
        "figure4": Changes("bitfit", "rte"),
        "figure5": Changes("bitfit", "mrpc"),
        "figure6": Changes("bitfit", "cola"),
        "figure8": Changes("g_LN1", "rte"),
        "figure9": Changes("g_LN2", "rte"),
        "figure10": Changes("g_LN1,g_LN2", "rte"),
        "figure11": Changes("rand_bias", "rte"),
        "figure12": Changes("bitfit without b_m2,b_q", "rte"),
        "figure13": Changes("bitfit,g_LN1,g_LN2", "rte"),
        "figure14": Changes("b_m2,b_q,g_LN1,g_LN2", "rte"),
        "figure15": Changes("b_LN1,b_LN2", "rte"),
    },
}


def tables(config: Config, experiment: Experiment) -> list[str]:
    """The tables of an experiment's paper for which it has the runs."""
    found = [*COMPARISONS[experiment.paper], *OTHER_TABLES[experiment.paper], *COMMON_TABLES]
    found += TEST_SCORES.get(experiment.paper, {}) if config.test_scores else []
    return [name for name in found if name != "repeat_variance" or len(experiment.seeds) > 1]


def titled(config: Config, experiment: Experiment) -> dict[str, str]:
    """The exhibits that an experiment has, in the order of its paper, with their titles."""
    there = [*tables(config, experiment), *figures(experiment)]
    there += ["submission/contents"] if submissions(config, experiment) else []
    titles = FIRST | TITLES[experiment.paper] | LAST
    return {name: title for name, title in titles.items() if name in there}


def caption(paper: str, name: str) -> str:
    """The name of the file with an exhibit's caption."""
    if name in CHANGES.get(paper, {}):
        return "parameter_changes"
    if name in COMPARISONS[paper] or name in TEST_SCORES.get(paper, {}):
        return "comparison"
    return name.replace("/", "_") if name in FIRST | LAST else f"{paper}_{name}"


def printed(paper: str, table: str) -> list[str]:
    """The printed scores that stand below ours in a comparison."""
    return (COMPARISONS[paper] | TEST_SCORES.get(paper, {}))[table]


def figures(experiment: Experiment) -> list[str]:
    """The figures of an experiment's paper for which it has the runs."""
    found = ["reproduction", "learning_curves", *changes(experiment)]
    if experiment.paper == "layernorm":
        found += ["figure3", "figure4"]
        found += ["figure1"] if "full" in experiment.methods else []
        found += ["figure2", "figure5"] if experiment.fractions else []
    return found


def evidence(experiment: Experiment) -> dict[str, str]:
    """Fields of `subtune.analysis.evidence.Evidence` that there is data for, to the data's name."""
    found = {"scores": "chosen"}
    if experiment.paper == "layernorm":
        found |= {"components": "component_shares", "layers": "layernorm_information"}
        found |= {"changes": "changes"} if "full" in experiment.methods else {}
    if experiment.paper in CHANGES:
        found["parameters"] = "parameter_changes"
    if experiment.paper == "bitfit":
        found["gaps"] = "train_scores"
    return found


def changes(experiment: Experiment) -> dict[str, Changes]:
    """The heat maps of changes for which an experiment has the method and the task."""
    return {
        figure: shown
        for figure, shown in CHANGES.get(experiment.paper, {}).items()
        if shown.method in experiment.all_methods() and shown.task in experiment.tasks
    }

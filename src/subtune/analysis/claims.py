"""The papers' main claims, asked of numbers: of ours, and where there are some, of the printed.

A claim's units are numbers for which 0 means no difference: differences of scores or of shares, and
logarithms of ratios. `subtune.analysis.verdicts` says what follows from them.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from subtune import reported
from subtune.analysis import verdicts
from subtune.analysis.scores import methods_only
from subtune.analysis.significance import kruskal_wallis
from subtune.reported import AVERAGE

LAYERNORM = "output.LayerNorm"
# The paper's smallest share of LayerNorm that still does as well (LayerNorm paper, section 6).
SMALL_FRACTION = 0.1
# What counts as nothing: two points of a score, 5 % of a ratio, 2 % of all information, a weak rank
# correlation.
COUNTS_AS_NOTHING = {"score": 0.02, "ratio": 0.05, "share": 0.02, "rank correlation": 0.1}
SCORE, SHARE, RANK = (COUNTS_AS_NOTHING[kind] for kind in ("score", "share", "rank correlation"))
RATIO = math.log(1 + COUNTS_AS_NOTHING["ratio"])
BIASES_THAT_CHANGE = ("b_q", "b_m2")


@dataclass(frozen=True)
class Evidence:
    """Numbers that claims are asked of; a table that is not there is empty.

    ``scores``: the chosen runs: ``model``, ``column``, ``method``, ``fraction``, ``scope``,
    ``value``, ``trainable``. ``changes``: ``task``, ``component``, ``layer``, ``change``.
    ``components``: ``task``, ``component``, ``share``. ``layers``: ``task``, ``layer``, ``part``,
    ``share``. ``parameters``: ``model``, ``task``, ``method``, ``parameter``, ``layer``,
    ``change``. ``gaps``: ``model``, ``method``, ``column``, ``gap``.
    """

    scores: pd.DataFrame
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)
    components: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    parameters: pd.DataFrame = field(default_factory=pd.DataFrame)
    gaps: pd.DataFrame = field(default_factory=pd.DataFrame)


Units = Callable[[Evidence], Sequence[float]]


@dataclass(frozen=True)
class Claim:
    """One claim: what it says, where it is printed, and how it is asked.

    ``is_ratio``: the units are logarithms, and are shown as ratios. ``groups``: two methods whose
    scores are compared by the Kruskal–Wallis test too.
    """

    text: str
    printed: str
    statistic: str
    kind: verdicts.Kind
    units: Units
    nothing: float = SCORE
    is_ratio: bool = False
    groups: tuple[str, str] | None = None


def _wide(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores of whole methods, of means over seeds: a row per model and column of the tables."""
    return methods_only(scores).groupby(["model", "column", "method"])["value"].mean().unstack()


def _minus(first: str | Iterable[str], second: str | Iterable[str]) -> Units:
    """Score of the first method minus that of the second; of several of each, the means."""
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]

    def units(evidence: Evidence) -> Sequence[float]:
        wanted = [method for group in groups for method in group]
        own = evidence.scores[evidence.scores["method"].isin(wanted)]
        if not all(set(group) & set(own["method"]) for group in groups):
            return []
        wide = _wide(own)
        known = [wide.reindex(columns=group).mean(axis=1) for group in groups]
        differences = (known[0] - known[1]).dropna()
        # A paper may print the average alone.
        single = differences.drop(index=AVERAGE, level="column", errors="ignore")
        return (single if len(single) else differences).tolist()

    return units


def _families(first: str, second: str) -> Units:
    """As `_minus`, of all methods whose names match these patterns from the start."""

    def units(evidence: Evidence) -> Sequence[float]:
        methods = evidence.scores["method"].unique()
        own = [[m for m in methods if re.match(pattern, m)] for pattern in (first, second)]
        return _minus(*own)(evidence)

    return units


def _parameters_of_families(first: str, second: str) -> Units:
    """Log of the most parameters of one family to the fewest of the other, per model and task."""

    def units(evidence: Evidence) -> Sequence[float]:
        if "trainable" not in evidence.scores:
            return []
        counts = evidence.scores.groupby(["model", "task", "method"])["trainable"].max().unstack()
        own = [counts.filter(regex=f"^{pattern}") for pattern in (first, second)]
        return np.log(own[0].max(axis=1) / own[1].min(axis=1)).dropna().tolist()

    return units


def _masks(evidence: Evidence) -> pd.DataFrame:
    """Scores of masks, of means over seeds: a row per column and fraction, a column per scope."""
    own = evidence.scores[evidence.scores["scope"] != ""]
    return own.groupby(["column", "fraction", "scope"])["value"].mean().unstack()


def _scope_minus(first: str, second: str) -> Units:
    """Score of one kind of mask minus that of another: the mean over fractions, per column."""

    def units(evidence: Evidence) -> Sequence[float]:
        masks = _masks(evidence)
        if not {first, second} <= set(masks.columns):
            return []
        return (masks[first] - masks[second]).groupby(level="column").mean().dropna().tolist()

    return units


def _small_fraction_minus_whole(evidence: Evidence) -> Sequence[float]:
    """Score of the individual mask nearest to `SMALL_FRACTION`, minus that of all of LayerNorm."""
    masks = _masks(evidence)
    whole = methods_only(evidence.scores)
    whole = whole[whole["method"] == "layernorm"].groupby("column")["value"].mean()
    if "individual" not in masks or whole.empty:
        return []
    fractions = masks.index.get_level_values("fraction").unique()
    nearest = min(fractions, key=lambda fraction: abs(fraction - SMALL_FRACTION))
    own = masks["individual"].xs(nearest, level="fraction")
    return (own - whole).dropna().tolist()


def _to_largest_other(table: pd.DataFrame) -> Sequence[float]:
    """Log of the output LayerNorm's value to the largest other component's, per task."""
    others = table.drop(columns=LAYERNORM).max(axis=1)
    return np.log(table[LAYERNORM] / others).tolist()


def _layernorm_change(evidence: Evidence) -> Sequence[float]:
    if evidence.changes.empty:
        return []
    return _to_largest_other(
        evidence.changes.groupby(["task", "component"])["change"].mean().unstack()
    )


def _layernorm_information(evidence: Evidence) -> Sequence[float]:
    if evidence.components.empty:
        return []
    return _to_largest_other(
        evidence.components.pivot(index="task", columns="component", values="share")
    )


def _bias_minus_weight(evidence: Evidence) -> Sequence[float]:
    """The bias's share of a task's LayerNorm information, minus the weight's."""
    if evidence.layers.empty:
        return []
    shares = evidence.layers.groupby(["task", "part"])["share"].sum().unstack()
    return (shares["bias"] - shares["weight"]).tolist()


def _rank_of_layers(evidence: Evidence) -> Sequence[float]:
    """Rank correlation of a layer's number and its LayerNorm information, per task."""
    if evidence.layers.empty:
        return []
    totals = evidence.layers.groupby(["task", "layer"])["share"].sum().unstack()
    return [float(stats.spearmanr(totals.columns, row).statistic) for row in totals.to_numpy()]


def _change_of_biases(evidence: Evidence) -> Sequence[float]:
    """Log of the smaller change of `BIASES_THAT_CHANGE` to the largest of another bias."""
    own = evidence.parameters
    if own.empty:
        return []
    own = own[(own["method"] == "bitfit") & own["parameter"].str.startswith("b_")]
    means = own.groupby(["model", "task", "parameter"])["change"].mean().unstack()
    if not set(BIASES_THAT_CHANGE) <= set(means.columns):
        return []
    named = means[list(BIASES_THAT_CHANGE)].min(axis=1)
    others = means.drop(columns=list(BIASES_THAT_CHANGE)).max(axis=1)
    return np.log(named / others).dropna().tolist()


def _gap(evidence: Evidence) -> Sequence[float]:
    """Generalisation gap of full fine-tuning minus BitFit's."""
    if evidence.gaps.empty:
        return []
    wide = evidence.gaps.groupby(["model", "column", "method"])["gap"].mean().unstack()
    if not {"full", "bitfit"} <= set(wide.columns):
        return []
    return (wide["full"] - wide["bitfit"]).dropna().tolist()


RANDOM_OF_BITFIT = ("rand_100k", "rand_uniform")
CLAIMS: dict[str, list[Claim]] = {
    "layernorm": [
        Claim(
            "Full fine-tuning changes the output LayerNorm more than any other component",
            "2.2, Figure 1",
            "its mean absolute change ÷ the largest other component's",
            "more",
            _layernorm_change,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "The output LayerNorm has more Fisher information than any other component",
            "2.4, Table 1",
            "its share of a task's information ÷ the largest other component's",
            "more",
            _layernorm_information,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "Training only LayerNorm scores as training only biases does",
            "3.1, Tables 2 and 3",
            "LayerNorm − BitFit; p of the Kruskal–Wallis test",
            "same",
            _minus("layernorm", "bitfit"),
            groups=("bitfit", "layernorm"),
        ),
        Claim(
            "LayerNorm scores better than as many random parameters",
            "3.1, Table 2",
            "LayerNorm − Random",
            "more",
            _minus("layernorm", "random"),
        ),
        Claim(
            "A small part of LayerNorm scores as all of it does",
            "3.2, Figure 2",
            "top 10 % (or the nearest share that was run) − all of LayerNorm",
            "no less",
            _small_fraction_minus_whole,
        ),
        Claim(
            "LayerNorm's biases carry more information than its weights",
            "3.3, Figure 3",
            "the biases' share of LayerNorm's information − the weights'",
            "more",
            _bias_minus_weight,
            SHARE,
        ),
        Claim(
            "LayerNorms of later layers carry more information",
            "3.3, Figures 3 and 4",
            "rank correlation of a layer's number and its information",
            "more",
            _rank_of_layers,
            RANK,
        ),
        Claim(
            "A global mask scores as the task's own does",
            "3.4, Figure 5",
            "global − individual, mean over fractions",
            "same",
            _scope_minus("global", "individual"),
        ),
        Claim(
            "A mask from the other tasks scores as the task's own does",
            "3.5, Figure 5",
            "cross-validated − individual, mean over fractions",
            "same",
            _scope_minus("cv", "individual"),
        ),
    ],
    "bitfit": [
        Claim(
            "Training only biases scores as full fine-tuning does",
            "4, Tables 1 and 2",
            "BitFit − Full",
            "same",
            _minus("bitfit", "full"),
        ),
        Claim(
            "Biases score better than as many random parameters",
            "4, Table 3",
            "BitFit − random",
            "more",
            _minus("bitfit", RANDOM_OF_BITFIT),
        ),
        Claim(
            "b_q and b_m2 change more than the other biases",
            "4, Figure 1",
            "the smaller of their mean absolute changes ÷ the largest other bias's",
            "more",
            _change_of_biases,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "b_m2 and b_q alone score hardly less than all biases",
            "4, Table 3",
            "b_m2,b_q − BitFit",
            "no less",
            _minus("b_m2,b_q", "bitfit"),
        ),
        Claim(
            "A frozen encoder scores less",
            "4, Table 3",
            "BitFit − Frozen",
            "more",
            _minus("bitfit", "frozen"),
        ),
        Claim(
            "BitFit's generalisation gap is smaller than that of full fine-tuning",
            "4, Generalization gap",
            "gap of Full − gap of BitFit",
            "more",
            _gap,
        ),
    ],
    "bitfit_plus": [
        Claim(
            "Training only biases scores as full fine-tuning does",
            "4.1, Figure 3",
            "BitFit − Full",
            "same",
            _minus("bitfit", "full"),
        ),
        Claim(
            "Biases score better than as many random parameters",
            "4.1, Figure 3",
            "BitFit − rand_uniform",
            "more",
            _minus("bitfit", "rand_uniform"),
        ),
        Claim(
            "Biases score better than as many parameters in random rows and columns",
            "4.1, Figure 3",
            "BitFit − rand_row_col",
            "more",
            _minus("bitfit", "rand_row_col"),
        ),
        Claim(
            "b_m2 and b_q are not special: the other biases do as well",
            "4.2, Figure 7",
            "BitFit without b_m2,b_q − b_m2,b_q",
            "no less",
            _minus("bitfit without b_m2,b_q", "b_m2,b_q"),
        ),
        Claim(
            "b_m2 and b_q are not special: as many random biases do as well",
            "4.2, Figure 7",
            "rand_bias − b_m2,b_q",
            "no less",
            _minus("rand_bias", "b_m2,b_q"),
        ),
        Claim(
            "LayerNorm's weights score less than all biases",
            "4.2, Figure 7",
            "BitFit − g_LN1,g_LN2",
            "more",
            _minus("bitfit", "g_LN1,g_LN2"),
        ),
    ],
    "spafit": [
        Claim(
            "SPAFIT scores no less than LoRA",
            "5, Table 2",
            "mean of the SPAFIT methods − mean of the LoRA methods",
            "no less",
            _families("SPAFIT-", "lora-"),
        ),
        Claim(
            "SPAFIT trains fewer parameters than LoRA",
            "5, Table 2",
            "the fewest of LoRA ÷ the most of SPAFIT",
            "more",
            _parameters_of_families("lora-", "SPAFIT-"),
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "SPAFIT scores as full fine-tuning does",
            "5, Table 2",
            "mean of the SPAFIT methods − Full",
            "same",
            _families("SPAFIT-", "full$"),
        ),
    ],
}


def claims_table(paper: str, ours: Evidence, papers: Evidence) -> pd.DataFrame:
    """A paper's claims, asked of our numbers and of the printed ones.

    Returns:
        ``claim``, ``printed`` (section and exhibit), ``statistic``, ``paper`` (of the printed
        numbers), ``units``, ``ours`` (the mean over units), ``low``, ``high`` (its interval),
        ``p_value`` and ``verdict``.
    """
    rows = []
    for claim in CLAIMS[paper]:
        units = claim.units(ours)
        found = verdicts.interval(units)
        verdict = verdicts.verdict(claim.kind, found, claim.nothing)
        p_value = _p_value(claim.groups, ours.scores)
        if p_value is not None and p_value < 1 - verdicts.LEVEL:
            verdict = verdicts.NOT_SUPPORTED
        printed = verdicts.interval(claim.units(papers)).mean
        shown = [float(np.exp(value)) if claim.is_ratio else value for value in (printed, *found)]
        about = (claim.text, claim.printed, claim.statistic)
        rows.append((*about, shown[0], len(units), *shown[1:], p_value, verdict))
    names = ["claim", "printed", "statistic", "paper", "units", "ours", "low", "high"]
    return pd.DataFrame(rows, columns=[*names, "p_value", "verdict"])


def _p_value(groups: tuple[str, str] | None, scores: pd.DataFrame) -> float | None:
    if groups is None or not set(groups) <= set(scores["method"]):
        return None
    wide = _wide(scores)[list(groups)].dropna()
    if len(wide) < verdicts.FEWEST_UNITS:
        return None
    return kruskal_wallis(*(wide[group].tolist() for group in groups))


def printed_evidence(paper: str) -> Evidence:
    """The numbers that a paper prints, as evidence for its claims."""
    scores = reported.scores(paper)
    scores = scores[scores["split"] == "validation"].rename(columns={"task": "column"})
    scores = scores.drop_duplicates(["model", "method", "column"]).assign(scope="", fraction=1.0)
    layers = pd.DataFrame()
    if paper == "layernorm":
        layers = reported.table("layernorm_figure3.csv").rename(columns={"value": "share"})
        layers["share"] /= layers.groupby("task")["share"].transform("sum")
    return Evidence(scores.drop(columns="params"), layers=layers)

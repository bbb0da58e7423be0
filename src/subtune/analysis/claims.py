"""The papers' main claims, asked of numbers: of ours, and where there are some, of the printed.

`subtune.analysis.evidence` has the questions, `subtune.analysis.verdicts` says what follows.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from subtune.analysis import evidence, verdicts
from subtune.analysis.evidence import Evidence, Units
from subtune.analysis.scores import by_method
from subtune.analysis.significance import kruskal_wallis

# What counts as nothing: two points of a score, 5 % of a ratio, 2 % of all information, a weak rank
# correlation.
COUNTS_AS_NOTHING = {"score": 0.02, "ratio": 0.05, "share": 0.02, "rank correlation": 0.1}
SCORE, SHARE, RANK = (COUNTS_AS_NOTHING[kind] for kind in ("score", "share", "rank correlation"))
RATIO = math.log(1 + COUNTS_AS_NOTHING["ratio"])


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


RANDOM_OF_BITFIT = ("rand_100k", "rand_uniform")
CLAIMS: dict[str, list[Claim]] = {
    "layernorm": [
        Claim(
            "Full fine-tuning changes the output LayerNorm more than any other component",
            "2.2, Figure 1",
            "its mean absolute change ÷ the largest other component's",
            "more",
            evidence.layernorm_change,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "The output LayerNorm has more Fisher information than any other component",
            "2.4, Table 1",
            "its share of a task's information ÷ the largest other component's",
            "more",
            evidence.layernorm_information,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "Training only LayerNorm scores as training only biases does",
            "3.1, Tables 2 and 3",
            "LayerNorm − BitFit; p of the Kruskal–Wallis test",
            "same",
            evidence.minus("layernorm", "bitfit"),
            groups=("bitfit", "layernorm"),
        ),
        Claim(
            "LayerNorm scores better than as many random parameters",
            "3.1, Table 2",
            "LayerNorm − Random",
            "more",
            evidence.minus("layernorm", "random"),
        ),
        Claim(
            "A small part of LayerNorm scores as all of it does",
            "3.2, Figure 2",
            "top 10 % (or the nearest share that was run) − all of LayerNorm",
            "no less",
            evidence.small_fraction_minus_whole,
        ),
        Claim(
            "LayerNorm's biases carry more information than its weights",
            "3.3, Figure 3",
            "the biases' share of LayerNorm's information − the weights'",
            "more",
            evidence.bias_minus_weight,
            SHARE,
        ),
        Claim(
            "LayerNorms of later layers carry more information",
            "3.3, Figures 3 and 4",
            "rank correlation of a layer's number and its information",
            "more",
            evidence.rank_of_layers,
            RANK,
        ),
        Claim(
            "A global mask scores as the task's own does",
            "3.4, Figure 5",
            "global − individual, mean over fractions",
            "same",
            evidence.scope_minus("global", "individual"),
        ),
        Claim(
            "A mask from the other tasks scores as the task's own does",
            "3.5, Figure 5",
            "cross-validated − individual, mean over fractions",
            "same",
            evidence.scope_minus("cv", "individual"),
        ),
    ],
    "bitfit": [
        Claim(
            "Training only biases scores as full fine-tuning does",
            "4, Tables 1 and 2",
            "BitFit − Full",
            "same",
            evidence.minus("bitfit", "full"),
        ),
        Claim(
            "Biases score better than as many random parameters",
            "4, Table 3",
            "BitFit − random",
            "more",
            evidence.minus("bitfit", RANDOM_OF_BITFIT),
        ),
        Claim(
            "b_q and b_m2 change more than the other biases",
            "4, Figure 1",
            "the smaller of their mean absolute changes ÷ the largest other bias's",
            "more",
            evidence.change_of_biases,
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "b_m2 and b_q alone score hardly less than all biases",
            "4, Table 3",
            "b_m2,b_q − BitFit",
            "no less",
            evidence.minus("b_m2,b_q", "bitfit"),
        ),
        Claim(
            "A frozen encoder scores less",
            "4, Table 3",
            "BitFit − Frozen",
            "more",
            evidence.minus("bitfit", "frozen"),
        ),
        Claim(
            "BitFit's generalisation gap is smaller than that of full fine-tuning",
            "4, Generalization gap",
            "gap of Full − gap of BitFit",
            "more",
            evidence.gap,
        ),
    ],
    "bitfit_plus": [
        Claim(
            "Training only biases scores as full fine-tuning does",
            "4.1, Figure 3",
            "BitFit − Full",
            "same",
            evidence.minus("bitfit", "full"),
        ),
        Claim(
            "Biases score better than as many random parameters",
            "4.1, Figure 3",
            "BitFit − rand_uniform",
            "more",
            evidence.minus("bitfit", "rand_uniform"),
        ),
        Claim(
            "Biases score better than as many parameters in random rows and columns",
            "4.1, Figure 3",
            "BitFit − rand_row_col",
            "more",
            evidence.minus("bitfit", "rand_row_col"),
        ),
        Claim(
            "b_m2 and b_q are not special: the other biases do as well",
            "4.2, Figure 7",
            "BitFit without b_m2,b_q − b_m2,b_q",
            "no less",
            evidence.minus("bitfit without b_m2,b_q", "b_m2,b_q"),
        ),
        Claim(
            "b_m2 and b_q are not special: as many random biases do as well",
            "4.2, Figure 7",
            "rand_bias − b_m2,b_q",
            "no less",
            evidence.minus("rand_bias", "b_m2,b_q"),
        ),
        Claim(
            "LayerNorm's weights score less than all biases",
            "4.2, Figure 7",
            "BitFit − g_LN1,g_LN2",
            "more",
            evidence.minus("bitfit", "g_LN1,g_LN2"),
        ),
    ],
    "spafit": [
        Claim(
            "SPAFIT scores no less than LoRA",
            "5, Table 2",
            "mean of the SPAFIT methods − mean of the LoRA methods",
            "no less",
            evidence.families("SPAFIT-", "lora-"),
        ),
        Claim(
            "SPAFIT trains fewer parameters than LoRA",
            "5, Table 2",
            "the fewest of LoRA ÷ the most of SPAFIT",
            "more",
            evidence.parameters_of_families("lora-", "SPAFIT-"),
            RATIO,
            is_ratio=True,
        ),
        Claim(
            "SPAFIT scores as full fine-tuning does",
            "5, Table 2",
            "mean of the SPAFIT methods − Full",
            "same",
            evidence.families("SPAFIT-", "full$"),
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
    wide = by_method(scores)[list(groups)].dropna()
    if len(wide) < verdicts.FEWEST_UNITS:
        return None
    return kruskal_wallis(*(wide[group].tolist() for group in groups))

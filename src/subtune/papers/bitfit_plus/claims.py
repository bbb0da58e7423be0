"""Claims of BitFit+, and statistics that only they need."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from subtune.analysis.claims import Claim
from subtune.analysis.statistics.parameters import (
    FEWEST_PAIRS,
    changes_of,
    changes_to_largest_other,
    rank_correlation,
)
from subtune.analysis.statistics.scores import (
    NOTHING,
    best_minus,
    best_on_average_minus,
    method_scores,
    minus_printed,
)
from subtune.papers.shared import two_biases_change_most


def distance_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Return `minus_printed` without its sign, so that distances up and down do not cancel."""
    return minus_printed(chosen, printed, pairs, exhibit, split).abs()


def change_and_score(
    changes: pd.DataFrame, chosen: pd.DataFrame, method: str, parts: Mapping[str, Sequence[str]]
) -> pd.Series:
    """Return the rank correlation of how much parameters change and what they score alone.

    Args:
        changes: from `subtune.analysis.changes.changes_of_methods`.
        chosen: the runs of the best learning rates.
        method: the method whose changes are compared, which trains all these parameters.
        parts: method to the parameters that it trains.

    Returns:
        One number per model, task with changes, and seed of the scores, which are means over
        tasks. It has the opposite sign, so that a positive correlation is below 0.
    """
    means, scores = changes_of(changes, method), method_scores(chosen)
    methods = [m for m, names in parts.items() if m in scores and set(names) <= set(means)]
    if len(methods) < FEWEST_PAIRS:
        return NOTHING
    changed = pd.DataFrame({m: means[list(parts[m])].mean(axis=1) for m in methods})
    averages = scores[methods].dropna().groupby(level=["model", "seed"]).mean()
    return pd.Series(
        {
            (model, task, seed): -rank_correlation(row, averages.loc[(model, seed)])
            for (model, task), row in changed.iterrows()
            for seed in averages.index.get_level_values("seed").unique()
            if (model, seed) in averages.index
        },
        dtype=float,
    ).rename_axis(["model", "task", "seed"])


GAMMAS = "g_LN1,g_LN2"
# All other methods that the paper trained.
OTHERS = r"(?!(full|bitfit)$)"
OTHER_BIASES = ("b_k", "b_v", "b_m1", "b_LN1", "b_m3", "b_LN2")


def better(text: str, section: str, first: str, second: str, quoted: str = "") -> Claim:
    """Return a claim that one method's average is above another's."""
    return Claim(text, section, f"{first} − {second}{quoted}", "more", of=(first, second))


def alike(text: str, section: str, first: str, second: str, **changed: Any) -> Claim:
    """Return a claim that two methods' averages are about the same."""
    statistic = changed.pop("statistic", f"{first} − {second}")
    return Claim(text, section, statistic, "same", of=(first, second), **changed)


CLAIMS = (
    Claim(
        "The replications score as the original paper's",
        "4.1, Figure 3",
        "distance of this run from the original paper, in parentheses in Figure 3; mean over five "
        "methods",
        "same",
        reads=("chosen", "printed"),
        units=distance_to_printed,
        of=(
            {m: m for m in ("bitfit", "b_m2,b_q", "frozen", "rand_uniform", "rand_row_col")},
            "figure3 (original paper, in parentheses)",
            "validation",
        ),
    ),
    alike(
        "Training only biases scores as full fine-tuning does", "4.1, Figure 3", "bitfit", "full"
    ),
    better(
        "Biases score better than as many random parameters",
        "4.1, Figure 3",
        "bitfit",
        "rand_uniform",
    ),
    better(
        "Biases score better than as many parameters in random rows and columns",
        "4.1, Figure 3",
        "bitfit",
        "rand_row_col",
    ),
    Claim(
        "BitFit scores best of all parameter-efficient methods, on average",
        "Abstract, 5, Figures 3 and 7",
        "BitFit − the best other method",
        "more",
        units=best_on_average_minus,
        of=("bitfit$", OTHERS),
    ),
    Claim(
        "BitFit scores best of all parameter-efficient methods, on each of three tasks",
        "5, Figure 3",
        "BitFit − the best other method",
        "more",
        units=best_minus,
        of=("bitfit$", OTHERS, 3),
        at_least=(3, 3),
    ),
    two_biases_change_most("4.1, Figures 4 to 6", tasks=3),
    alike(
        "b_m2 and b_q alone score as all biases do",
        "4.1, Figure 3",
        "b_m2,b_q",
        "bitfit",
        contradicted_by="Figure 3: averages of 70.8 and 73.3 are 2.5 points apart, more than the "
        "2 that count as none",
    ),
    better(
        "b_m2 and b_q are not special: the other biases score better",
        "4.2, Figure 7",
        "bitfit without b_m2,b_q",
        "b_m2,b_q",
    ),
    better(
        "b_m2 and b_q are not special: as many random biases score better",
        "4.2, Figure 7",
        "rand_bias",
        "b_m2,b_q",
    ),
    better(
        "b_m2 and b_q are not special: the biases of LayerNorm score better",
        "4.2, Figure 7",
        "b_LN1,b_LN2",
        "b_m2,b_q",
    ),
    better(
        "All biases with LayerNorm's weights score better than b_m2 and b_q",
        "5, Figure 7",
        f"bitfit,{GAMMAS}",
        "b_m2,b_q",
    ),
    better(
        "Of LayerNorm's weights, the second score better than the first",
        "4.2, Figure 7",
        "g_LN2",
        "g_LN1",
    ),
    alike("The second LayerNorm's weights score as both do", "4.2, Figure 7", "g_LN2", GAMMAS),
    Claim(
        "LayerNorm's weights score less than all biases",
        "Abstract, 4.2, Figure 7",
        "BitFit − the best of g_LN1, g_LN2 and both",
        "more",
        units=best_on_average_minus,
        of=("bitfit$", r"g_LN[12](,g_LN2)?$"),
    ),
    Claim(
        "LayerNorm's biases score better than its weights",
        "4.2, 5, Figure 7",
        "b_LN1,b_LN2 − the best of g_LN1, g_LN2 and both",
        "more",
        units=best_on_average_minus,
        of=("b_LN1,b_LN2$", r"g_LN[12](,g_LN2)?$"),
    ),
    better(
        "Adding all biases to LayerNorm's weights scores better",
        "4.2, Figure 7",
        f"bitfit,{GAMMAS}",
        GAMMAS,
        " (the text: +3.7 points)",
    ),
    better(
        "Adding b_m2 and b_q to LayerNorm's weights scores better",
        "4.2, Figure 7",
        f"b_m2,b_q,{GAMMAS}",
        GAMMAS,
        " (the text: +3.0 points)",
    ),
    alike(
        "Adding LayerNorm's weights to all biases hardly matters",
        "4.2, Figure 7",
        f"bitfit,{GAMMAS}",
        "bitfit",
        statistic=f"bitfit,{GAMMAS} − bitfit (the text: −0.9 points)",
    ),
    alike(
        "Adding LayerNorm's weights to b_m2 and b_q hardly matters",
        "4.2, Figure 7",
        f"b_m2,b_q,{GAMMAS}",
        "b_m2,b_q",
        statistic=f"b_m2,b_q,{GAMMAS} − b_m2,b_q (the text: +0.9 points)",
    ),
    Claim(
        "b_q and b_m2 change more than LayerNorm's weights",
        "4.2, Figure 13",
        "the smaller of their mean absolute changes ÷ the larger of g_LN1's and g_LN2's",
        "more",
        measure="ratio",
        reads=("parameter_changes",),
        units=changes_to_largest_other,
        of=(f"bitfit,{GAMMAS}", ("b_q", "b_m2"), "g_"),
        is_printed=False,
    ),
    Claim(
        "What changes more does not score better",
        "4.2, Figures 4, 10 and 13",
        "rank correlation over methods of how much their parameters change where all train, and "
        "their scores, its sign turned",
        "no less",
        measure="rank correlation",
        reads=("parameter_changes", "chosen"),
        units=change_and_score,
        of=(
            f"bitfit,{GAMMAS}",
            {
                "b_m2,b_q": ("b_m2", "b_q"),
                "bitfit without b_m2,b_q": OTHER_BIASES,
                "b_LN1,b_LN2": ("b_LN1", "b_LN2"),
                "g_LN1": ("g_LN1",),
                "g_LN2": ("g_LN2",),
                GAMMAS: ("g_LN1", "g_LN2"),
            },
        ),
        is_printed=False,
    ),
)

"""Claims of the LayerNorm paper, and statistics that only they need."""

from dataclasses import replace
from typing import Any

import pandas as pd

from subtune.analysis.claims import Claim
from subtune.analysis.statistics.parameters import (
    parameters_of_families,
    rank_of_layers,
    ranks_first,
    share_to_largest_other,
    to_largest_other,
)
from subtune.analysis.statistics.scores import fraction_minus_whole, minus, scope_minus


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of scores on dev and on test sets."""
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def change_to_largest_other(changes: pd.DataFrame, component: str) -> pd.Series:
    """Return the log of a component's mean |change| over layers to the largest other one's."""
    means = changes.groupby(["task", "component"])["change"].mean().unstack()
    return to_largest_other(means, component, ())


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Return the biases' share of a task's LayerNorm information, minus the weights'.

    A layer with a missing part does not count.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # Norms of some models have no biases.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


def whole_minus_fraction(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> pd.Series:
    """Return `fraction_minus_whole` with the opposite sign."""
    return -fraction_minus_whole(chosen, method, scope, fraction)


COMPONENT = "output.LayerNorm"
# The smallest share of LayerNorm that still does as well (section 6).
SMALL_PART = 0.1
PART = "top 10 % of LayerNorm (or the nearest share that was run)"


def on_test(claim: Claim, **changed: Any) -> Claim:
    """Return the same claim about the scores that the GLUE server returned."""
    return replace(claim, text=f"{claim.text}, on test sets", reads=("test_scores",), **changed)


AS_FULL = Claim(
    "Training only LayerNorm scores as full fine-tuning does",
    "Abstract, 3.1, Table 2",
    "LayerNorm − Full",
    "same",
    of=("layernorm", "full"),
)
BETTER_THAN_FULL = Claim(
    "Training only LayerNorm scores better than full fine-tuning on some tasks",
    "Abstract, Table 2",
    "LayerNorm − Full",
    "more",
    of=("layernorm", "full"),
    at_least=(1, 9),
    contradicted_by="Table 2: LayerNorm is below Full in all nine columns; nearest SST-2, 0.9312 "
    "and 0.9335",
)
AS_BITFIT = Claim(
    "Training only LayerNorm scores as training only biases does",
    "3.1, Table 2",
    "LayerNorm − BitFit; p of the Kruskal–Wallis test",
    "same",
    of=("layernorm", "bitfit"),
    groups=("bitfit", "layernorm"),
)
BETTER_THAN_BITFIT = Claim(
    "Training only LayerNorm scores better than training only biases on some tasks",
    "Abstract, Table 2",
    "LayerNorm − BitFit",
    "more",
    of=("layernorm", "bitfit"),
    at_least=(1, 9),
)
BETTER_THAN_RANDOM = Claim(
    "LayerNorm scores better than as many random parameters",
    "3.1, Table 2",
    "LayerNorm − Random",
    "more",
    of=("layernorm", "random"),
)

CLAIMS = (
    Claim(
        "Full fine-tuning changes the output LayerNorm more than any other component, on most "
        "tasks",
        "Abstract, 2.2, Figure 1",
        "its mean absolute change ÷ the largest other component's",
        "more",
        measure="ratio",
        reads=("changes",),
        units=change_to_largest_other,
        of=(COMPONENT,),
        at_least=(5, 8),
        is_printed=False,
    ),
    Claim(
        "The output LayerNorm has more Fisher information than any other component",
        "2.4, Table 1",
        "its share of a task's information ÷ the largest other component's; its rank in the sum "
        "over tasks",
        "more",
        measure="ratio",
        reads=("component_shares",),
        units=share_to_largest_other,
        of=(COMPONENT, ()),
        order=ranks_first,
    ),
    Claim(
        "The LayerNorm of attention has the second most Fisher information",
        "2.4, Table 1",
        "its share of a task's information ÷ the largest of components other than it and the "
        "output LayerNorm; its rank in the sum over tasks",
        "more",
        measure="ratio",
        reads=("component_shares",),
        units=share_to_largest_other,
        of=("attention.output.LayerNorm", (COMPONENT,)),
        order=ranks_first,
    ),
    AS_FULL,
    on_test(AS_FULL, printed_in="Abstract, 3.1, Table 3"),
    BETTER_THAN_FULL,
    on_test(BETTER_THAN_FULL, printed_in="Abstract, Table 3", contradicted_by=""),
    AS_BITFIT,
    on_test(AS_BITFIT, printed_in="3.1, Table 3"),
    replace(
        AS_BITFIT,
        text=f"{AS_BITFIT.text}, on dev and test sets together",
        printed_in="3.1, Tables 2 and 3",
        reads=("chosen", "test_scores"),
        units=minus_on_both,
    ),
    BETTER_THAN_BITFIT,
    on_test(BETTER_THAN_BITFIT, printed_in="Abstract, Table 3"),
    BETTER_THAN_RANDOM,
    on_test(BETTER_THAN_RANDOM, printed_in="3.1, Table 3"),
    Claim(
        "LayerNorm trains less than a fifth of BitFit's parameters",
        "1, 3.1",
        "a fifth of BitFit's parameters ÷ LayerNorm's, without the classifier's",
        "more",
        measure="ratio",
        units=parameters_of_families,
        of=("bitfit$", "layernorm$", 1 / 5),
    ),
    Claim(
        "A small part of LayerNorm scores as all of it does",
        "Abstract, 3.2, 6, Figure 2",
        f"{PART} − all of LayerNorm",
        "no less",
        units=fraction_minus_whole,
        of=("layernorm", "individual", SMALL_PART),
        is_printed=False,
    ),
    Claim(
        "On MRPC and RTE a small part of LayerNorm scores better than all of it",
        "3.2, Figure 2",
        f"{PART} − all of LayerNorm",
        "more",
        units=fraction_minus_whole,
        of=("layernorm", "individual", SMALL_PART),
        tasks=("mrpc", "rte"),
        at_least=(2, 2),
        is_printed=False,
    ),
    Claim(
        "On QNLI, SST-2 and STS-B a small part of LayerNorm scores less than all of it",
        "3.2, Figure 2",
        f"all of LayerNorm − {PART}",
        "more",
        units=whole_minus_fraction,
        of=("layernorm", "individual", SMALL_PART),
        tasks=("qnli", "sst2", "stsb"),
        at_least=(3, 3),
        is_printed=False,
    ),
    Claim(
        "LayerNorm's biases carry more information than its weights, on every task",
        "3.3, 4, Figure 3",
        "the biases' share of LayerNorm's information − the weights'",
        "more",
        measure="share",
        reads=("layernorm_information",),
        units=bias_minus_weight,
        at_least=(8, 8),
    ),
    Claim(
        "LayerNorms of later layers carry more information, on every task",
        "3.3, 4, Figures 3 and 4",
        "rank correlation of a layer's number and its information",
        "more",
        measure="rank correlation",
        reads=("layernorm_information",),
        units=rank_of_layers,
        of=("share", None),
        at_least=(8, 8),
    ),
    Claim(
        "Full fine-tuning changes LayerNorms of later layers more",
        "4",
        "rank correlation of a layer's number and its output LayerNorm's change",
        "more",
        measure="rank correlation",
        reads=("changes",),
        units=rank_of_layers,
        of=("change", COMPONENT),
        is_printed=False,
    ),
    *(
        Claim(
            f"A small part of LayerNorm chosen {how} scores as all of it does",
            f"{section}, Figure 5",
            f"{PART}, {name} mask − all of LayerNorm",
            "no less",
            units=fraction_minus_whole,
            of=("layernorm", scope, SMALL_PART),
            is_printed=False,
        )
        for how, section, name, scope in (
            ("for all tasks", "3.4", "global", "global"),
            ("from the other tasks", "3.5", "cross-validated", "cv"),
        )
    ),
    *(
        Claim(
            f"A mask {what} scores as the task's own does",
            f"{section}, Figure 5",
            f"{name} − individual, mean over fractions",
            "same",
            units=scope_minus,
            of=(scope, "individual"),
            is_printed=False,
        )
        for what, section, name, scope in (
            ("of all tasks", "3.4", "global", "global"),
            ("from the other tasks", "3.5", "cross-validated", "cv"),
        )
    ),
)

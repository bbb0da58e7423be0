"""Claims: what an interval says of them, and what the papers' own numbers and made-up ones say."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from subtune import papers
from subtune.analysis import claims, statistics, verdicts
from subtune.analysis.verdicts import NOT_ENOUGH, NOT_SUPPORTED, SUPPORTED, Interval
from subtune.papers import printed
from subtune.tables import claims as table


@pytest.mark.parametrize(
    ("kind", "low", "high", "verdict"),
    [
        ("more", 0.01, 0.30, SUPPORTED),
        ("more", -0.10, 0.01, NOT_SUPPORTED),
        ("more", -0.10, 0.10, NOT_ENOUGH),
        ("same", -0.01, 0.01, SUPPORTED),
        ("same", -0.30, -0.03, NOT_SUPPORTED),
        ("same", 0.03, 0.30, NOT_SUPPORTED),
        ("same", -0.30, 0.01, NOT_ENOUGH),
        ("no less", -0.01, 0.30, SUPPORTED),
        ("no less", -0.30, -0.03, NOT_SUPPORTED),
        ("no less", -0.30, 0.30, NOT_ENOUGH),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(kind, low, high, verdict):
    assert verdicts.verdict(kind, Interval((low + high) / 2, low, high), 0.02) == verdict


def test_fewer_than_three_units_are_not_enough():
    found = verdicts.interval([0.5, 0.6])
    assert found.mean == 0.55 and math.isnan(found.low)
    assert verdicts.verdict("more", found, 0.02) == NOT_ENOUGH
    assert math.isnan(verdicts.interval([]).mean)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=20), st.floats(-1, 1))
def test_an_interval_holds_its_mean_and_moves_with_the_values(values, step):
    found, moved = verdicts.interval(values), verdicts.interval([v + step for v in values])
    assert found.low <= found.mean + 1e-12 and found.mean <= found.high + 1e-12
    assert moved.high - moved.low == pytest.approx(found.high - found.low, abs=1e-6)


def test_the_interval_is_that_of_the_t_test():
    values = [0.01, 0.03, -0.02, 0.05]
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert verdicts.interval(values)[1:] == pytest.approx((low, high))


def scores(**methods):
    """Dev scores per method, a value per column."""
    rows = [
        ("tiny", f"task{column}", method, 1.0, None, value, 100)
        for method, values in methods.items()
        for column, value in enumerate(values)
    ]
    names = ["model", "column", "method", "fraction", "scope", "value", "trainable"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(task=frame["column"])


def claims_of(paper, **tables):
    return claims.claims_table(papers.find(paper), tables)


def verdict_of(paper, text, **tables):
    found = claims_of(paper, **tables)
    [row] = found[found["claim"].str.contains(text, regex=False)].to_dict("records")
    return row


def test_every_paper_has_claims_and_every_claim_says_where_it_is_printed():
    for paper in papers.all_papers().values():
        assert paper.claims
        assert all(claim.printed_in and claim.statistic for claim in paper.claims)


def test_the_printed_scores_are_asked_the_same_question():
    row = verdict_of("layernorm", "scores as training only biases", chosen=scores(full=[0.5]))
    # The means of Table 2's rows: LayerNorm .81511, BitFit .82020.
    bitfit = [0.9145, 0.9278, 0.8399, 0.8457, 0.6364, 0.9183, 0.9043, 0.7473, 0.8476]
    layernorm = [0.9072, 0.9312, 0.8285, 0.8348, 0.6412, 0.9130, 0.9039, 0.7401, 0.8361]
    assert row["paper"] == pytest.approx(np.mean(layernorm) - np.mean(bitfit))
    assert (row["units"], row["verdict"]) == (0, NOT_ENOUGH)


def test_averages_are_compared_where_a_paper_prints_nothing_else():
    row = verdict_of("bitfit_plus", "the other biases", chosen=scores(full=[0.5]))
    assert not math.isnan(row["paper"])


def test_methods_that_score_alike_are_alike_and_others_are_not():
    same = scores(bitfit=[0.9, 0.8, 0.7, 0.6], layernorm=[0.905, 0.795, 0.702, 0.598])
    other = scores(bitfit=[0.9, 0.91, 0.92, 0.93], layernorm=[0.5, 0.51, 0.52, 0.54])
    text = "scores as training only biases"
    assert verdict_of("layernorm", text, chosen=same)["verdict"] == SUPPORTED
    row = verdict_of("layernorm", text, chosen=other)
    assert row["verdict"] == NOT_SUPPORTED and row["p_value"] < 0.05


def test_the_order_of_tasks_does_not_matter():
    frame = scores(bitfit=[0.9, 0.8, 0.7], random=[0.5, 0.5, 0.6], layernorm=[0.8, 0.8, 0.9])
    there, back = (claims_of("layernorm", chosen=rows) for rows in (frame, frame.iloc[::-1]))
    pd.testing.assert_frame_equal(there, back)


def test_a_component_is_compared_with_the_largest_other_one():
    changes = pd.DataFrame(
        [(task, c, 0, value) for task in "abc" for c, value in
         (("output.LayerNorm", 0.4), ("output.dense", 0.1), ("attention.self.key", 0.2))],
        columns=["task", "component", "layer", "change"],
    )  # fmt: skip
    row = verdict_of("layernorm", "changes the output LayerNorm", chosen=scores(), changes=changes)
    assert row["ours"] == pytest.approx(2) and row["verdict"] == SUPPORTED


def test_later_layers_are_compared_by_rank_and_parts_by_share():
    layers = pd.DataFrame(
        [(task, layer, part, share) for task in "abc"
         for layer, share in ((0, 0.05), (1, 0.1), (2, 0.15)) for part, share in
         (("weight", share), ("bias", 2 * share))],
        columns=["task", "layer", "part", "share"],
    )  # fmt: skip
    row = verdict_of("layernorm", "later layers", chosen=scores(), layernorm_information=layers)
    assert row["ours"] == pytest.approx(1) and row["verdict"] == SUPPORTED
    row = verdict_of(
        "layernorm", "biases carry more", chosen=scores(), layernorm_information=layers
    )
    assert row["ours"] == pytest.approx(0.3) and row["verdict"] == SUPPORTED


def test_masks_are_compared_column_by_column():
    frame = scores(layernorm=[0.8, 0.8, 0.8])
    masks = [
        frame.assign(scope=scope, fraction=fraction, value=frame["value"] - less)
        for scope, less in (("individual", 0.01), ("cv", 0.2))
        for fraction in (0.1, 0.4)
    ]
    every = pd.concat([frame, *masks])
    row = verdict_of("layernorm", "mask from the other tasks", chosen=every)
    assert (row["units"], row["verdict"]) == (3, NOT_SUPPORTED)
    row = verdict_of("layernorm", "small part of LayerNorm", chosen=every)
    assert row["ours"] == pytest.approx(-0.01) and row["verdict"] == SUPPORTED


def test_families_of_methods_are_compared_by_their_means_and_their_parameters():
    frame = scores(**{"lora-I": [0.5] * 3, "lora-II": [0.7] * 3, "SPAFIT-1-3-I": [0.65] * 3})
    frame.loc[frame["method"].str.startswith("SPAFIT"), "trainable"] = 40
    row = verdict_of("spafit", "no less than LoRA", chosen=frame)
    assert row["ours"] == pytest.approx(0.05) and row["verdict"] == SUPPORTED
    every = pd.concat([frame, scores(full=[0.64] * 3), scores(**{"full-bitfit": [0.1] * 3})])
    row = verdict_of("spafit", "as full fine-tuning", chosen=every)
    assert row["ours"] == pytest.approx(0.01) and row["verdict"] == SUPPORTED
    row = verdict_of("spafit", "fewer parameters", chosen=frame)
    assert row["ours"] == pytest.approx(2.5) and row["verdict"] == SUPPORTED


def test_two_biases_must_both_change_more_than_any_other():
    changes = {"b_q": 0.3, "b_m2": 0.1, "b_v": 0.2, "g_LN1": 9.0}
    rows = [("tiny", task, "bitfit", name, 0, changes[name]) for task in "abc" for name in changes]
    names = ["model", "task", "method", "parameter", "layer", "change"]
    row = verdict_of(
        "bitfit",
        "b_q and b_m2 change",
        chosen=scores(),
        parameter_changes=pd.DataFrame(rows, columns=names),
    )
    assert row["ours"] == pytest.approx(0.5) and row["verdict"] == NOT_SUPPORTED


def test_the_checklist_shows_numbers_intervals_and_what_is_missing():
    frame = scores(bitfit=[0.9, 0.8, 0.7], full=[0.8, 0.7, 0.6])
    found = claims_of("bitfit", chosen=frame)
    styled = table.checklist(found)
    shown = styled.table.set_index("claim")
    row = shown.loc["Training only biases scores as full fine-tuning does"]
    assert (row["this run"], row["95 % interval"], row["of"]) == ("0.100", "0.100 to 0.100", 3)
    assert shown.loc["A frozen encoder scores less", "this run"] == "–"
    assert styled.emphasis.bold["verdict"].sum() == 1


def test_a_printed_layer_with_an_unreadable_cell_counts_in_no_share_and_in_no_rank():
    """QNLI's weights lack four layers, whose biases would count for them too."""
    shares = claims.printed_shares(papers.find("layernorm"), "figure3")
    layers = shares[shares["task"] == "qnli"]
    assert set(layers["layer"]) == set(range(24)) - {2, 7, 8, 17}
    assert layers["share"].sum() == pytest.approx(1)
    printed_cells = printed.table("layernorm", "figure3").query("task == 'qnli'")
    wide = printed_cells.pivot(index="layer", columns="part", values="value").dropna()
    expected = (wide["bias"] - wide["weight"]).sum() / wide.to_numpy().sum()
    assert statistics.bias_minus_weight(layers) == pytest.approx([expected])
    ranks = stats.spearmanr(wide.index, wide.sum(axis=1)).statistic
    every = statistics.rank_of_layers(shares)
    assert len(every) == 8 and ranks in every

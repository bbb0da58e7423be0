"""Claims, tested on the papers' own numbers and on made-up ones."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from subtune import papers
from subtune.analysis import claims
from subtune.analysis.claims import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_PRINTED,
    UNDECIDED,
    Interval,
)
from subtune.analysis.intervals import (
    JACKKNIFE_PARTS,
    compute_pseudo_values,
    estimate_study,
    mean_interval,
)
from subtune.analysis.run_scores import PART_COLUMNS, ROW_COLUMNS
from subtune.exhibits.finding_tables import claims_table
from subtune.papers.layernorm import bias_minus_weight, rank_of_layers
from tests.helpers.examples import scored

CLAIMS = [
    pytest.param(paper, claim, id=f"{paper.name}-{claim.text}")
    for paper in map(papers.find_paper, papers.paper_names())
    for claim in paper.claims
]


@cache
def read_printed(name, averages):
    return papers.find_paper(name).printed_tables(averages=averages)


def claims_of(paper, **tables):
    """The claims of a paper, tested on these tables and on the printed ones."""
    printed = [read_printed(paper.name, averages) for averages in (False, True)]
    return claims.evaluate_claims(paper.claims, tables, *printed, paper.tasks_apart)


@cache
def claims_of_print(name, averages):
    """The claims of a paper, by their text, tested on its printed numbers."""
    paper = papers.find_paper(name)
    return claims_of(paper, **paper.printed_tables(averages=averages)).set_index("claim")


def verdict_of(name, text, **tables):
    """The first claim with these words."""
    paper = papers.find_paper(name)
    claim = next(claim for claim in paper.claims if text in claim.text)
    [row] = claims_of(replace(paper, claims=(claim,)), **tables).to_dict("records")
    return row


def scores(**methods):
    """Dev scores per method, a value per column."""
    rows = [
        (f"task{column}", method.replace("__", "-"), 1.0, None, 1e-3, 0, value)
        for method, values in methods.items()
        for column, value in enumerate(values)
    ]
    return scored(*rows).assign(trainable=100)


def test_scores_in_different_units_decide_no_claim():
    one = scores(bitfit=[0.9, 0.8, 0.7, 0.6], layernorm=[0.905, 0.795, 0.702, 0.598])
    other = one.assign(task="cost", column="cost", metric="neg_max_error", value=-250.0)
    about, mixed = "does not differ significantly", pd.concat([one, other])
    assert verdict_of("layernorm", about, chosen=mixed)["judged"] == UNDECIDED


def test_a_verdict_on_runs_with_one_answer_says_so():
    text = "LayerNorm is no worse"
    claim = claims.Claim(text, "1", "LayerNorm − full", "no less", of=("layernorm", "full"))
    table = scores(layernorm=[0.5, 0.7], full=[0.5, 0.8])
    printed = {"printed": pd.DataFrame()}

    def tested(one_answer):
        tables = {"chosen": table.assign(one_answer=one_answer)}
        return claims.evaluate_claims([claim], tables, printed, printed)

    [row] = tested(False).to_dict("records")
    assert row["one_answer"] == 0 and "answer" not in claims_table(tested(False)).table["over"][0]
    collapsed = tested((table["method"] == "layernorm") & (table["value"] == 0.5))
    assert collapsed["one_answer"].tolist() == [1]
    over = claims_table(collapsed).table["over"][0]
    assert over == "2 tasks (one answer in 1 of the compared numbers)"
    assert tested(True)["one_answer"].tolist() == [2]


def add_unprinted(table):
    """The table, with a method, a task and a score column that no paper prints.

    The method is better than all others, and the order of methods is reversed on the task and in
    the column.
    """
    if "value" not in table or "split" not in table:
        return table
    best = table.assign(method="unprinted", value=1.0).drop_duplicates(["model", "column"])
    worse = table.assign(value=1 - table["value"])
    own = worse.assign(task="unprinted", column=worse["model"] + "-unprinted")
    split = worse.assign(column=worse["column"] + "_unprinted")
    return pd.concat([table, best, own, split], ignore_index=True)


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("name", sorted({*papers.paper_names()} - {"beft"}))
def test_what_a_paper_does_not_print_changes_no_verdict_on_its_printed_numbers(name, averages):
    paper = papers.find_paper(name)
    # The averages of one paper are the only scores of some methods.
    paper = replace(paper, tasks_apart=(*paper.tasks_apart, "average"))
    printed = paper.printed_tables(averages=averages)
    ours = {key: paper.select_evaluated(add_unprinted(table)) for key, table in printed.items()}
    changed = claims_of(papers.find_paper(name), **ours).set_index("claim")
    columns = ["judged", "ours", "cells"]
    pd.testing.assert_frame_equal(changed[columns], claims_of_print(name, averages)[columns])


@pytest.mark.parametrize(("paper", "claim"), CLAIMS)
def test_printed_numbers_say_of_each_claim_what_its_paper_says(paper, claim):
    """A claim that its paper's numbers contradict names the number; a claim without numbers says
    so."""
    tasks, averages = (claims_of_print(paper.name, means).loc[claim.text] for means in (0, 1))
    expected = DOES_NOT_HOLD if claim.contradicted_by else HOLDS
    judged = {tasks["judged"], averages["judged"]} - {UNDECIDED}
    assert judged == ({expected} if claim.is_printed else set())
    assert tasks["paper_judged"] == (expected if claim.is_printed else NOT_PRINTED)


@pytest.mark.parametrize(
    ("paper", "text", "printed"),
    [
        # The paper's text quotes these numbers; they follow from its averages.
        ("bitfit_plus", "Adding all biases to LayerNorm's", 0.037),
        ("bitfit_plus", "Adding b_m2 and b_q to LayerNorm's", 0.030),
        ("bitfit_plus", "Adding LayerNorm's weights to all", -0.009),
        ("bitfit_plus", "Adding LayerNorm's weights to b_m2", 0.009),
        ("bitfit_plus", "the other biases score", 0.717 - 0.708),
        # The mean of Table 2's differences.
        ("layernorm", "no less than full fine-tuning", -0.0172222),
        # P-values of the Kruskal–Wallis test.
        ("layernorm", "does not differ significantly", 0.56599),
        ("layernorm", "from training only biases, on test", 0.62703),
        ("layernorm", "dev and test", 0.54773),
    ],
)
def test_a_printed_number_follows_from_the_printed_scores(paper, text, printed):
    assert verdict_of(paper, text)["paper"] == pytest.approx(printed, abs=1e-5)


def test_methods_that_score_alike_are_alike_and_others_are_not():
    same = scores(bitfit=[0.9, 0.8, 0.7, 0.6], layernorm=[0.905, 0.795, 0.702, 0.598])
    other = scores(bitfit=[0.9, 0.91, 0.92, 0.93], layernorm=[0.5, 0.51, 0.52, 0.54])
    about = "does not differ significantly"
    alike, row = (verdict_of("layernorm", about, chosen=chosen) for chosen in (same, other))
    assert (alike["judged"], row["judged"]) == (HOLDS, DOES_NOT_HOLD)
    assert math.isnan(row["mean"]) and row["units"] == 0
    assert row["ours"] < 0.05 < alike["ours"]


SPREAD = np.array([0.9, 1.0, 1.1])


def test_masks_are_compared_column_by_column():
    frame = scores(layernorm=[0.8, 0.8, 0.8])
    masks = [
        frame.assign(scope=scope, fraction=fraction, value=frame["value"] - less * SPREAD)
        for scope, less in (("individual", 0.01), ("cv", 0.2))
        for fraction in (0.1, 0.4)
    ]
    every = pd.concat([frame, *masks])
    row = verdict_of("layernorm", "mask chosen from the other tasks", chosen=every)
    assert (row["units"], row["judged"], row["is_certain"]) == (3, DOES_NOT_HOLD, True)
    row = verdict_of("layernorm", "tenth of LayerNorm", chosen=every)
    assert row["ours"] == pytest.approx(-0.01)
    assert (row["judged"], row["is_certain"]) == (HOLDS, True)
    whole = pd.concat([every, scores(full=[0.9, 0.9, 0.9])])
    row = verdict_of("layernorm", "tenth of LayerNorm scores no less than full", chosen=whole)
    assert row["ours"] == pytest.approx(-0.11) and row["judged"] == DOES_NOT_HOLD


def test_families_are_compared_by_their_means_and_their_parameters():
    """The smallest method of one family is compared with the largest of the other, without
    classifiers."""
    frame = scores(lora__I=[0.5] * 3, lora__II=[0.7] * 3, SPAFIT__1=[0.6] * 3, SPAFIT__2=[0.7] * 3)
    trained = {"lora-I": 200, "lora-II": 400, "SPAFIT-1": 140, "SPAFIT-2": 120}
    frame = frame.assign(trainable=frame["method"].map(trained), classifier=100)
    every = pd.concat([frame, scores(full=[0.64] * 3, full__bitfit=[0.1] * 3)])
    for text, chosen, expected in (
        ("SPAFIT scores no less than LoRA", frame, 0.05),
        ("SPAFIT scores no less than full", every, 0.01),
        ("fewer parameters", frame, 2.5),
    ):
        row = verdict_of("spafit", text, chosen=chosen)
        assert row["ours"] == pytest.approx(expected)
        assert row["judged"] == HOLDS


@pytest.mark.parametrize(
    ("criterion", "second", "cells", "judged"),
    [
        ({"at_least": (5, 9)}, [0.1, 0.9, 0.1], 3, HOLDS),
        ({"at_least": (5, 9)}, [0.9] * 3, 3, DOES_NOT_HOLD),
        ({"at_least": (5, 9), "tasks": ("task0",)}, [0.1, 0.9, 0.9], 1, HOLDS),
        ({"at_least": (5, 9), "tasks": ("task9",)}, [0.1, 0.9, 0.1], 0, UNDECIDED),
        ({"at_most": (3, 9)}, [0.1, 0.9, 0.9], 3, HOLDS),
        ({"at_most": (3, 9)}, [0.1] * 3, 3, DOES_NOT_HOLD),
    ],
)
def test_a_count_holds_on_as_large_a_share_of_our_tasks(criterion, second, cells, judged):
    claim = claims.Claim("Better", "1", "a − b", "more", of=("a", "b"), **criterion)
    tables, printed = {"chosen": scores(a=[0.5] * 3, b=second)}, {"printed": pd.DataFrame()}
    [row] = claims.evaluate_claims([claim], tables, printed, printed).to_dict("records")
    words = "at most 3 of 9" if "at_most" in criterion else "at least 5 of 9"
    assert (row["cells"], row["judged"], row["judged_by"]) == (cells, judged, words)


def test_seeds_are_the_intervals_units_and_cells_are_means_over_them():
    """The first method's mean over seeds is better on one of two tasks.

    The interval of a mean cannot test a claim about few tasks.
    """
    frames = [scores(bitfit=[0.5, 0.5 + seed / 10], full=[0.4, 0.65]).assign(seed=seed)
              for seed in range(3)]  # fmt: skip
    row = verdict_of("bitfit", "better than full fine-tuning on some", chosen=pd.concat(frames))
    assert (row["unit"], row["units"]) == ("seed", 3) and row["mean"] == pytest.approx(0.025)
    assert (row["ours"], row["cells"], row["judged"]) == (1, 2, HOLDS)
    assert not row["is_certain"]


def test_runs_that_diverged_are_no_cells_and_have_no_best_rate():
    frame = scores(bitfit=[0.9, math.nan, 0.7], full=[0.8, 0.7, math.nan])
    row = verdict_of("bitfit", "no less than full fine-tuning", chosen=frame)
    assert (row["cells"], row["units"]) == (1, 1)
    row = verdict_of("spafit", "learning rate of 2e-05", chosen=scores(full=[math.nan] * 3))
    assert (row["cells"], row["units"], row["judged"]) == (0, 0, UNDECIDED)


def test_a_printed_number_that_contradicts_a_claim_is_named_in_its_line():
    shown = claims_table(claims_of(papers.find_paper("spafit"), chosen=scores(full=[0.5]))).table
    [_, line] = shown[shown["contradicted by"] != "–"].to_dict("records")
    assert line["claim"].startswith("Where full fine-tuning scores best")
    assert line["paper"] == "-0.025" and "0.64 and 0.67" in line["contradicted by"]


def test_the_checklist_shows_numbers_intervals_and_what_is_missing():
    frame = scores(bitfit=[0.9, 0.8, 0.7], full=[0.8, 0.7, 0.6])
    bitfit = papers.find_paper("bitfit")
    shown = claims_table(claims_of(bitfit, chosen=frame)).table.set_index("claim")
    row = shown.loc["Training only biases scores no less than full fine-tuning"]
    assert (row["this run"], row["95 % interval"]) == ("0.100", "0.100 to 0.100")
    assert row["over"] == "3 tasks"
    row = shown.loc["Training only biases scores better than full fine-tuning on some tasks"]
    assert (row["this run"], row["paper"]) == ("3 of 3", "14 of 27")
    assert shown.loc["A frozen encoder scores lower than BitFit, on every task", "this run"] == "–"
    assert shown.loc["BitFit converges within 7 epochs on most tasks", "paper"] == "not printed"
    assert not (shown == "nan").any(axis=None)
    several = pd.concat([frame.assign(model=model) for model in "ab"])
    row = claims_table(claims_of(bitfit, chosen=several)).table.iloc[0]
    assert (row["verdict"], row["over"]) == (HOLDS, "6 models × tasks")


def test_a_printed_layer_with_an_unreadable_cell_is_left_out():
    """QNLI's weights lack four layers; the biases of these layers must not count either."""
    paper = papers.find_paper("layernorm")
    shares = paper.printed_tables(averages=False)["layernorm_information"]
    layers = shares[shares["task"] == "qnli"]
    assert set(layers["layer"]) == set(range(24)) - {2, 7, 8, 17}
    assert layers["share"].sum() == pytest.approx(1)
    printed_cells = paper.read_printed("figure3").query("task == 'qnli'")
    wide = printed_cells.pivot(index="layer", columns="part", values="value").dropna()
    expected = (wide["bias"] - wide["weight"]).sum() / wide.to_numpy().sum()
    assert bias_minus_weight(layers)["qnli"] == pytest.approx(expected)
    ranks = stats.spearmanr(wide.index, wide.sum(axis=1)).statistic
    assert rank_of_layers(shares, "share")["qnli"] == pytest.approx(ranks)


def test_the_best_method_has_the_best_mean_over_seeds():
    """A different one of the other methods is best with each seed (and on each task)."""
    first = scores(bitfit=[0.8, 0.8, 0.8], b_q=[0.9, 0.6, 0.6], g_LN1=[0.6, 0.9, 0.6])
    second = scores(bitfit=[0.8, 0.8, 0.8], b_q=[0.6, 0.9, 0.6], g_LN1=[0.6, 0.6, 0.9])
    every = pd.concat([first, second.assign(seed=1)])
    row = verdict_of("bitfit_plus", "best of all parameter-efficient methods, on av", chosen=every)
    assert row["ours"] == pytest.approx(0.8 - 0.7) and row["judged"] == HOLDS
    first = scores(SPAFIT__4__9__II=[0.8], lora__I=[0.9], lora__II=[0.6])
    second = scores(SPAFIT__4__9__II=[0.8], lora__I=[0.6], lora__II=[0.9])
    every = pd.concat([first, second.assign(seed=1)])
    row = verdict_of("spafit", "SPAFIT-4-9-II scores best", chosen=every)
    assert (row["ours"], row["cells"]) == (1, 1)


def test_a_count_has_a_method_that_diverged_as_the_worst():
    worst = "Full BitFit scores no better than any other"
    chosen = scores(SPAFIT__4__9__I=[math.nan] * 3, lora__I=[0.8] * 3, full__bitfit=[0.5] * 3)
    assert verdict_of("spafit", worst, chosen=chosen)["judged"] == DOES_NOT_HOLD
    chosen = scores(SPAFIT__4__9__II=[math.nan, math.nan, 0.9], lora__I=[0.8] * 3)
    row = verdict_of("spafit", "SPAFIT-4-9-II scores best", chosen=chosen)
    assert (row["ours"], row["cells"], row["judged"]) == (1, 3, DOES_NOT_HOLD)


def tagged(full, bitfit):
    """Scores on part-of-speech tagging, the same with three models."""
    one = scores(full=[full], bitfit=[bitfit]).assign(task="ud_ewt", column="ud_ewt")
    return pd.concat([one.assign(model=f"model {number}") for number in range(3)])


@pytest.mark.parametrize(("bitfit", "judged"), [(0.9715, HOLDS), (0.970, DOES_NOT_HOLD)])
def test_on_tagging_a_tenth_of_a_point_counts(bitfit, judged):
    row = verdict_of("bitfit", "part-of-speech", chosen=tagged(0.972, bitfit))
    assert (row["judged"], row["cells"]) == (judged, 3)
    assert row["paper"] == pytest.approx(-0.001 / 3) and row["paper_judged"] == HOLDS


def test_a_claim_without_tasks_leaves_out_tasks_that_a_paper_treats_apart():
    table = pd.concat([scores(full=[0.5], bitfit=[0.6]), tagged(0.9, 0.1)])
    row = verdict_of("bitfit", "only biases scores no less than full fine-tuning", chosen=table)
    assert (row["ours"], row["cells"]) == (pytest.approx(0.1), 1)
    # The printed cells are 9 columns of Table 2 with each of 3 models.
    assert row["paper_cells"] == 27


def test_a_claim_about_the_size_of_training_data_is_asked_of_every_size():
    parts = [
        scores(full=[full], bitfit=[bitfit]).assign(train_rows=rows)
        for rows, full, bitfit in ((100, 0.1, 0.3), (1000, 0.4, 0.5), (10000, 0.8, 0.7))
    ]
    sizes = pd.concat(parts).assign(metric="exact_match", task="squad", column="squad")
    for text, ours in (
        ("With little training data", 0.2),
        ("With the most training data", 0.1),
        ("more training examples of a task", 1),
    ):
        row = verdict_of("bitfit", text, sizes=sizes)
        assert row["ours"] == pytest.approx(ours)
        assert (row["judged"], row["paper_judged"]) == (HOLDS, NOT_PRINTED)


@pytest.mark.parametrize(("most", "ours"), [("b_q", 0.1), ("b_v", 0)])
def test_information_guides_well_if_its_bias_scores_as_the_best(most, ours):
    few = scores(b_q=[0.6], b_k=[0.5], b_v=[0.7]).assign(train_rows=100)
    many = scores(b_q=[0.9], b_k=[0.5], b_v=[0.7]).assign(train_rows=1000)
    table = pd.DataFrame({"task": "task0", "parameter": ["b_q", "b_k", "b_v", "b_LN2"]})
    table["information"] = [float(most == "b_q"), 0.0, float(most == "b_v"), 9.0]
    both = {"sizes": pd.concat([few, many]), "parameter_information": table}
    row = verdict_of("beft", "little guidance", **both)
    assert row["ours"] == pytest.approx(ours)
    assert row["judged"] == (HOLDS if ours else DOES_NOT_HOLD)


@pytest.mark.parametrize(
    ("kind", "low", "high", "margin", "certain"),
    [
        ("more", 0.01, 0.30, 0.02, True),
        ("more", -0.10, -0.01, 0.02, True),
        ("more", -0.10, 0.10, 0.02, False),
        ("same", -0.01, 0.01, 0.02, True),
        ("same", -0.30, -0.03, 0.02, True),
        ("same", 0.03, 0.30, 0.02, True),
        ("same", -0.30, 0.30, 0.02, False),
        ("same", -0.30, 0.01, 0.02, False),
        ("no less", -0.01, 0.30, 0.02, True),
        ("no less", -0.30, -0.03, 0.02, True),
        ("no less", -0.30, 0.30, 0.02, False),
        ("no less", 0.0, 0.0, 0.0, False),
        ("no less", math.nan, math.nan, 0.02, False),
    ],
)
def test_a_verdict_is_certain_if_no_number_of_the_interval_gives_another(
    kind, low, high, margin, certain
):
    assert claims.is_certain(kind, Interval((low + high) / 2, low, high), margin) is certain


def test_fewer_than_three_units_are_not_enough():
    found = claims.claim_interval([0.5, 0.6])
    assert found.mean == 0.55 and math.isnan(found.low)
    assert math.isnan(claims.claim_interval([]).mean)


def test_a_number_holds_by_the_claims_kind():
    for kind, number, fails in (
        ("more", 0.001, 0),
        ("same", 0.019, -0.02),
        ("no less", -0.02, -0.021),
    ):
        assert claims.claim_holds(kind, number, 0.02) and not claims.claim_holds(kind, fails, 0.02)


TWO_TASKS = [("m", task, seed, n + seed / 10) for n, task in enumerate("ab") for seed in range(4)]
TWO_MODELS = [("m", "a", 0, 0.2), ("n", "a", 0, 0.4), ("n", "b", 0, 0.1)]


@pytest.mark.parametrize(
    ("cells", "unit", "means"),
    [
        # Each seed's mean over tasks; a seed that lacks one of the tasks is left out.
        (TWO_TASKS, "seed", [0.5, 0.6, 0.7, 0.8]),
        (TWO_TASKS[:-1], "seed", [0.5, 0.6, 0.7]),
        ([("m", "a", 0, 0.2), ("m", "a", 1, 0.4), ("m", "b", 0, 0.1)], "task", [0.3, 0.1]),
        (TWO_MODELS, "model × task", [0.2, 0.4, 0.1]),
    ],
)
def test_units_are_seeds_where_there_are_three_and_otherwise_tasks(cells, unit, means):
    table = pd.DataFrame(cells, columns=["model", "column", "seed", "value"])
    found = claims.average_by_unit(table.set_index(["model", "column", "seed"])["value"])
    assert found[0] == unit and found[1].tolist() == pytest.approx(means)


ROWS = 100
BETTER = claims.Claim("LayerNorm is better", "1", "", "more", of=("layernorm", "full"))


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    """The accuracy of two methods with three seeds on 100 examples of each of two tasks."""
    rng, chosen, row_scores = np.random.default_rng(0), [], []
    part_of_row = np.arange(ROWS) % JACKKNIFE_PARTS
    right_answers = {"layernorm": (72, 72, 72), "full": (70, 69, 68)}
    for method, counts in right_answers.items():
        for task, (seed, count) in itertools.product("ab", enumerate(counts)):
            right = rng.permutation(ROWS) < count
            run = f"{task}-{method}-{seed}"
            chosen.append(scored((task, method, 1.0, None, 1e-3, seed, right.mean())))
            chosen[-1]["run"] = run
            values = compute_pseudo_values(
                lambda mask, right=right: right[mask].mean(), part_of_row, JACKKNIFE_PARTS
            )
            row_scores.append([run, ROWS, "hash", *values])
    return {
        "chosen": pd.concat(chosen, ignore_index=True).assign(judges=True),
        "row_scores": pd.DataFrame(row_scores, columns=[*ROW_COLUMNS]),
    }


def judge(tables):
    printed = {"printed": pd.DataFrame()}
    return claims.evaluate_claims([BETTER], tables, printed, printed)


def test_the_interval_of_a_difference_of_scores_is_that_of_an_answer(tables):
    [row] = judge(tables).to_dict("records")
    values = tables["row_scores"].set_index("run")[PART_COLUMNS]
    studies = []
    for task in "ab":
        runs = [[f"{task}-{method}-{seed}" for seed in range(3)] for method in BETTER.of]
        of_layernorm, of_full = (values.loc[names].to_numpy() for names in runs)
        studies.append(estimate_study([0.02, 0.03, 0.04], of_layernorm - of_full, ROWS))
    found = row["mean"], row["low"], row["high"]
    assert found == pytest.approx(tuple(mean_interval(studies)), abs=1e-12)


def test_equal_differences_of_three_seeds_on_few_examples_are_not_certain(tables):
    by_seeds, by_both = judge({"chosen": tables["chosen"]}), judge(tables)
    assert [*by_seeds["is_certain"], *by_both["is_certain"]] == [True, False]
    over = [claims_table(table).table["over"][0] for table in (by_seeds, by_both)]
    assert over == ["3 seeds", "3 seeds × examples"]


def test_a_task_without_examples_counts_by_seeds_only(tables):
    scores = tables["row_scores"]
    of_b = scores[scores["run"].str.startswith("b")]
    units = [judge(tables | {"row_scores": known})["unit"][0] for known in (of_b, of_b.iloc[:0])]
    assert units == ["seed × example", "seed"]
    [row] = judge(tables | {"row_scores": of_b}).to_dict("records")
    [both] = judge(tables).to_dict("records")
    assert row["mean"] == both["mean"] and row["high"] - row["low"] < both["high"] - both["low"]

"""Scores, costs and answers, compared with numbers worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy

from subtune.analysis import candidates, intervals
from subtune.analysis.answer import ALL_TASKS
from subtune.analysis.chosen_runs import STILL_RISING
from subtune.analysis.run_scores import PART_COLUMNS
from subtune.exhibits.answer_tables import answers_table
from tests.helpers.examples import scored
from tests.helpers.exhibits import NO_ROW_SCORES, results

CLASSIFIER = 10
TRAINED = {"full": 10_000, "lora-I": 900, "bitfit": 400, "layernorm": 100, "frozen": 0}


def runs(scores, task="rte", fraction=1.0, scope=None):
    """Return runs of seeds 0, 1, … by method, with each method's number of parameters.

    A method with a single number has this score with three seeds.
    """
    rows = [
        (task, method, fraction, scope, 1e-3, seed, value)
        for method, values in scores.items()
        for seed, value in enumerate([values] * 3 if isinstance(values, float) else values)
    ]
    table = scored(*rows)
    trained = table["method"].map(lambda method: TRAINED.get(method, 50)) * table["fraction"]
    fitted = table["method"].isin(["tf-idf", "constant", "embeddings"])
    return table.assign(
        learning_rate=table["learning_rate"].mask(fitted),
        # TF-IDF and constant predictions have no encoder.
        encoder_size=(~table["method"].isin(["tf-idf", "constant"])).astype(int),
        trainable=trained.astype(int) + CLASSIFIER,
        classifier=CLASSIFIER,
        delta_bytes=4 * trained,
        seconds=2.0,
        run=table.index.astype(str),
        best_epoch=1,
        one_answer=False,
        judges=True,
    )


def answer_of(table, task="rte", row_scores=NO_ROW_SCORES):
    titles = {name: name for name in table["task"]}
    rows = answers_table(results(titles, chosen=table, row_scores=row_scores)).table
    return rows[rows["task"] == task].iloc[0]


def test_full_is_not_called_worth_it_while_methods_are_left_out():
    scores = {"full": 0.9, "bitfit": [0.7, 0.71, 0.69], "layernorm": 0.6}
    table = runs(scores)
    assert answer_of(table.assign(left_out=""))["decision"] == "everything"
    found = answer_of(table.assign(left_out="LoRA-I, Frozen"))
    assert found["decision"] == "undecided"
    assert found["answer"] == (
        "Undecided: no smaller method that was tried scores within 0.02 of full fine-tuning "
        "(> 99 %)."
    )
    assert found["next"].startswith("LoRA-I and Frozen were left out to save time: allow more")
    # A method that is enough stays enough.
    enough = runs({"full": 0.9, "bitfit": 0.899}).assign(left_out="LoRA-I")
    assert answer_of(enough)["decision"] == "train"
    # A method that the user added has runs.
    assert answer_of(table.assign(left_out="LayerNorm, BitFit"))["decision"] == "everything"


def test_an_answer_on_a_sample_of_the_rows_says_so():
    table = runs({"full": 0.9, "bitfit": 0.899})
    found = answer_of(table.assign(share_of_rows=0.04))
    assert found["decision"] == "train" and found["answer"].startswith("BitFit is enough: 0.899 ag")
    assert found["answer"].endswith(" %), on 4 % of the rows.")
    assert found["next"] == (
        "Full fine-tuning may gain more from the other rows: allow more minutes, or name the whole "
        "table in `files`."
    )
    whole = answer_of(table.assign(share_of_rows=1.0))
    assert "rows" not in whole["answer"] and whole["next"] == "No more runs are needed."


WORTH_IT = "Full fine-tuning is worth it: no smaller method scores within 0.02 of it"
UNSURE = {"full": 0.9, "layernorm": [0.89, 0.87, 0.9], "bitfit": [0.9, 0.901, 0.899]}
DIVERGED = {"full": 0.9, "layernorm": [0.9, math.nan, 0.9], "bitfit": 0.9}
FLOOR = {"full": 0.5, "embeddings": 0.81, "bitfit": 0.7}
# For each case: scores, decision and method, and the answer without its probability.
ANSWERS = {
    "smallest": (
        {"full": 0.9, "bitfit": 0.89, "lora-I": 0.9, "layernorm": 0.8},
        *("train BitFit", "BitFit is enough: 0.890 against 0.900"),
    ),
    "none is near": (
        {"full": 0.9, "bitfit": [0.7, 0.71, 0.69], "layernorm": 0.6},
        *("everything BitFit", WORTH_IT),
    ),
    "sure": (UNSURE, "train BitFit", "BitFit is enough: 0.900 against 0.900"),
    "diverged": (DIVERGED, "train BitFit", "BitFit is enough: 0.900 against 0.900"),
    "beaten": (
        {"full": 0.5, "lora-I": 0.81, "bitfit": 0.8, "layernorm": 0.6},
        *("train BitFit", "BitFit is enough: 0.800 against 0.810 of LoRA-I"),
    ),
    "best": (
        {"full": 0.5, "lora-I": 0.81, "bitfit": 0.7},
        *("train LoRA-I", "LoRA-I beats full fine-tuning: 0.810 against 0.500"),
    ),
    "nothing": (
        {"full": 0.9, "embeddings": 0.9},
        *("train Embeddings", "No fine-tuning is needed: embeddings score 0.900 against 0.900"),
    ),
    "words alone": (
        {"full": 0.9, "tf-idf": 0.9},
        *("train TF-IDF", "No fine-tuning is needed: TF-IDF scores 0.900 against 0.900"),
    ),
    "no text matters": (
        {"full": 0.5, "tf-idf": 0.51, "constant": 0.5},
        "train Constant",
        "Nothing is learned: a constant prediction scores 0.500 against 0.500",
    ),
    "a better floor": (
        *(FLOOR, "train Embeddings"),
        "No fine-tuning is needed: embeddings score 0.810 against 0.500",
    ),
    "classifier": (
        {"full": 0.9, "frozen": 0.9},
        *("train Frozen", "Frozen is enough: 0.900 against 0.900"),
    ),
}


@pytest.mark.parametrize(("scores", "decision", "words"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_is_the_smallest_method_within_the_margin(scores, decision, words):
    row = answer_of(runs(scores))
    assert (f"{row['decision']} {row['method']}", row["answer"]) == (decision, f"{words} (> 99 %).")
    assert len(row["answer"].split()) <= 20


def test_before_full_fine_tuning_nobody_says_that_nothing_is_learned():
    row = answer_of(runs({"constant": 0.5, "tf-idf": 0.4, "embeddings": 0.5}))
    assert row["answer"] == "Embeddings score best so far: 0.500."


def test_a_smaller_method_with_the_same_scores_is_named_although_its_probability_is_unknown():
    scores = {"full": [0.9, 0.91, 0.92], "layernorm": [0.9, 0.91, 0.92]}
    table = runs(scores | {"bitfit": [0.899, 0.909, 0.918]}).assign(metric="f1")
    row = answer_of(table)
    assert (row["decision"], row["method"]) == ("undecided", "LayerNorm")
    assert row["answer"] == "Undecided: LayerNorm has 0.910 against 0.910."
    scores["lora-I"] = scores.pop("layernorm")
    larger = runs(scores | {"bitfit": [0.899, 0.909, 0.918]}).assign(metric="f1")
    row = answer_of(larger)
    assert (row["decision"], row["method"]) == ("train", "BitFit")
    row = answer_of(table.assign(value=table["value"].mask(table["method"] == "layernorm", 0.1)))
    assert (row["decision"], row["method"]) == ("train", "BitFit")


def test_the_control_of_a_ranking_is_named_with_its_score():
    scores = {"full": [0.8, 0.81, 0.8], "mine": [0.81, 0.8, 0.81]}
    assert "random" not in answer_of(runs(scores))["next"]
    scores["mine by random"] = [0.8, 0.8, 0.8]
    found = answer_of(runs(scores))
    assert found["method"] == "mine"
    assert found["next"].startswith("As many random entries score 0.800. ")
    scores["mine by random"] = [0.8, 0.8]
    assert "As many" not in answer_of(runs(scores))["next"]


def test_the_control_of_a_mask_is_that_of_the_same_fraction():
    masks = [runs({"layernorm by mine": [0.81, 0.8, 0.81]}, fraction=0.1, scope="individual")]
    masks += [
        runs({"layernorm by random": score}, fraction=share, scope="individual")
        for score, share in ((0.79, 0.1), (0.78, 0.2))
    ]
    table = pd.concat([runs({"full": [0.8, 0.81, 0.8]}), *masks], ignore_index=True)
    table["run"] = table.index.astype(str)
    assert answer_of(table)["next"].startswith("As many random entries score 0.790. ")


def test_a_whole_method_has_no_control():
    masks = {"layernorm by mine": [0.81, 0.8, 0.81], "layernorm by random": [0.81, 0.8, 0.81]}
    table = pd.concat(
        [
            runs({"full": [0.8, 0.81, 0.8]}),
            *(runs({name: scores}, scope="individual") for name, scores in masks.items()),
        ],
        ignore_index=True,
    )
    is_mask = table["method"] != "full"
    # At fraction 1, both masks are the same runs.
    table["run"] = table["seed"].astype(str).where(is_mask, table.index.astype(str) + "full")
    assert "As many random" not in answer_of(table)["next"]


def test_a_method_that_is_unsure_is_named_with_the_seeds_that_would_tell():
    row = answer_of(runs({"full": 0.9, "layernorm": [0.93, 0.87, 0.9]}))
    assert (row["decision"], row["method"]) == ("probably", "LayerNorm")
    assert row["answer"] == "LayerNorm is probably enough: 0.900 against 0.900 (82 %)."
    seeds = [*range(3 + row["more_seeds"])]
    assert row["next"] == f"For a certain answer, use about `seeds: {seeds}`."


@pytest.mark.parametrize(
    ("method", "decided"), [("full", False), ("bitfit", False), ("layernorm", True)]
)
def test_no_answer_depends_on_a_score_that_still_rises(method, decided):
    table = runs({"full": 0.9, "bitfit": 0.9, "layernorm": 0.5})
    rising = table.assign(curve=table["curve"].mask(table["method"] == method, STILL_RISING))
    row = answer_of(rising)
    assert (row["decision"], row["method"]) == ("train" if decided else "undecided", "BitFit")
    name = {"full": "Full fine-tuning", "bitfit": "BitFit"}.get(method)
    advice = f"{name} still improves in the last epoch: set more `epochs`."
    assert (row["next"] == advice) != decided


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (24, "Undecided: BitFit has the best chance (38 %), with 1.000 against 1.000."),
        (79, "Undecided: BitFit has the best chance (79 %), with 1.000 against 1.000."),
        (81, "BitFit is probably enough: 1.000 against 1.000 (80 %)."),
        (149, "BitFit is probably enough: 1.000 against 1.000 (95 %)."),
        (150, "BitFit is enough: 1.000 against 1.000 (95 %)."),
    ],
)
def test_a_sentence_is_as_strong_as_its_probability(rows, words):
    """With few rows, equal predictions say little: the rule of three gives 38 % for 24 rows."""
    table = runs({"full": 1.0, "bitfit": 1.0})
    row = answer_of(table, row_scores=equal_rows(table, rows))
    assert row["answer"] == words
    assert ("more dev examples" in row["next"]) == (rows < 150)


def of_chances(**chances):
    """Return runs of three seeds, with methods of these probabilities to be within 0.02 of full.

    Student's t of each mean difference plus 0.02 is that of the probability.
    """
    scores = {"full": 0.9}
    for method, chance in chances.items():
        distance = 0.02 * np.sign(chance - 0.5)
        spread = distance * math.sqrt(3) / scipy.stats.t(2).ppf(chance) if distance else 0.01
        scores[method] = [0.88 + distance + spread * step for step in (-1, 0, 1)]
    return runs(scores)


@pytest.mark.parametrize(
    ("probabilities", "decision", "answer", "step"),
    [
        ({"layernorm": 0.7}, "undecided", "Undecided: LayerNorm has the best chance (70 %)", "For"),
        ({"layernorm": 0.1}, "probably everything", "Full fine-tuning is probably worth it", "For"),
        ({"layernorm": 0.04}, "everything", "Full fine-tuning is worth it", "The nearest"),
        (
            {"layernorm": 0.04, "bitfit": 0.03},
            "probably everything",
            "Full fine-tuning is probably worth it: "
            "no smaller method scores within 0.02 of it (93 %).",
            "For",
        ),
        ({"layernorm": 0.3}, "undecided", "Undecided: LayerNorm has the best chance (30 %)", "For"),
    ],
)
def test_full_is_worth_it_only_if_every_smaller_method_is_surely_worse(
    probabilities, decision, answer, step
):
    row = answer_of(of_chances(**probabilities))
    assert row["decision"] == decision and row["answer"].startswith(answer)
    assert row["next"].startswith(step)


def test_two_methods_with_the_same_runs_count_once():
    """As random controls of two rankings, which train the same random entries."""
    table = of_chances(layernorm=0.03, bitfit=0.03)
    is_bitfit = table["method"] == "bitfit"
    table.loc[is_bitfit, "run"] = table.loc[table["method"] == "layernorm", "run"].to_list()
    assert answer_of(table)["decision"] == "everything"


def test_a_smaller_method_that_may_be_enough_is_named_with_its_size():
    row = answer_of(of_chances(layernorm=0.6, bitfit=0.93))
    assert row["answer"] == "BitFit is probably enough: 0.900 against 0.900 (93 %)."
    assert row["next"].startswith("LayerNorm, a quarter of its size, has 60 %. For a certain")
    row = answer_of(of_chances(layernorm=0.4, bitfit=0.93))
    assert row["next"].startswith("For a certain answer")
    row = answer_of(of_chances(frozen=0.55, layernorm=0.75))
    assert row["answer"].startswith("Undecided: LayerNorm has the best chance (75 %)")
    assert row["next"].startswith("Frozen, far smaller, has 55 %.")


def test_a_method_is_sure_only_if_it_is_within_the_margin_of_every_other_method():
    """Against full, BitFit is sure. LoRA-I scores more, but not surely by the margin."""
    scores = {"full": [0.9, 0.9, 0.9], "bitfit": [0.895, 0.895, 0.896]}
    assert answer_of(runs(scores))["answer"].startswith("BitFit is enough")
    better = {"lora-I": [0.91, 0.92, 0.93]}
    row = answer_of(runs(scores | better))
    assert row["answer"] == "LoRA-I is enough: 0.920 against 0.900 (99 %)."
    assert row["next"].startswith("BitFit, half its size, has > 99 %, but LoRA-I may score higher.")
    methods = candidates.summarise_methods(runs(scores | better), NO_ROW_SCORES).set_index("method")
    bitfit = methods.loc["bitfit"]
    differences = np.array(scores["bitfit"]) - better["lora-I"]
    chance = scipy.stats.t(2).cdf((differences.mean() + 0.02) / scipy.stats.sem(differences))
    assert (bitfit["rival"], bitfit["least_chance"]) == ("LoRA-I", pytest.approx(chance))
    assert bitfit["chance"] > 0.99 and bitfit["reference"] == "Full" and not bitfit["sure"]
    made = answers_table(results({"rte": "RTE"}, chosen=runs(scores | better)))
    assert "may score more than 0.02 lower than LoRA-I" in made.note


def equal_rows(table, rows):
    """Return equal values of every run on all parts of the rows."""
    values = pd.DataFrame(0.9, table.index, PART_COLUMNS)
    return values.assign(run=table["run"], rows=rows, rows_hash="same")


@pytest.mark.parametrize(
    ("margin", "decision", "chance"),
    [(0.005, "everything", 0.0371), (0.02, "probably", 0.8873), (0.1, "train", 0.9994)],
)
def test_the_smallest_margin_of_the_experiments_decides(margin, decision, chance):
    """Student's t is -2√3, √3 or 17√3, with the chance 1/2 + t / (2 √(2 + t²))."""
    table = runs({"full": 0.9, "bitfit": [0.88, 0.885, 0.89]})
    table["margin"] = table["method"].map({"full": margin, "bitfit": 0.1})
    row = answer_of(table)
    assert (row["margin"], row["decision"]) == (margin, decision)
    methods = candidates.summarise_methods(table, NO_ROW_SCORES).set_index("method")
    assert set(methods["margin"]) == {margin}
    assert methods.loc["bitfit", "chance"] == pytest.approx(chance, abs=5e-5)


FULL = [0.7, 0.71, 0.72]


def test_full_is_compared_with_a_larger_method_that_beats_it():
    table = runs({"full": FULL, "lora-I": [0.8, 0.81, 0.82]})
    table.loc[table["method"] == "lora-I", "trainable"] = 2 * TRAINED["full"]
    rows = candidates.summarise_methods(table, NO_ROW_SCORES).set_index("method")
    assert rows.loc["full", "difference"] == pytest.approx(-0.1) and not rows.loc["full", "sure"]
    assert answer_of(table)["method"] == "LoRA-I" and rows.loc["lora-I", "sure"]


def test_a_method_without_a_score_of_full_to_compare_is_at_most_probable():
    row = answer_of(runs({"bitfit": 0.9, "lora-I": 0.91}))
    assert (row["decision"], row["method"], row["reference"]) == ("probably", "BitFit", "LoRA-I")


def test_an_answer_trains_less_than_the_reference_and_has_all_scores():
    scores = {"full": [0.9] * 2, "lora-I": [0.9] * 2, "layernorm": [0.9, math.nan]}
    table = runs(scores | {"bitfit": [0.8, 0.9]})
    table.loc[table["method"] == "lora-I", "trainable"] = TRAINED["full"] + CLASSIFIER
    assert answer_of(table)["method"] == "BitFit"


def test_a_mask_is_an_answer_too():
    whole = runs({"full": 0.9, "layernorm": 0.9})
    masked = runs({"layernorm": 0.9}, fraction=0.2, scope="global")
    row = answer_of(pd.concat([whole, masked], ignore_index=True))
    assert (row["method"], row["trained"]) == ("LayerNorm, top 20%, global", 20)


@pytest.mark.fault(
    "numbers",
    "one seed, or a claim from fewer than three values",
    "the answer is *undecided*, the claim never *certain*",
)
def test_one_seed_decides_nothing_but_says_something_by_its_rows():
    table = runs({"full": [0.9], "bitfit": [0.9]})
    row = answer_of(table, row_scores=numbers_of(table, 0.01))
    assert (row["decision"], row["over"]) == ("undecided", "one seed and 400 dev examples")
    assert row["chance"] > 0.99
    row = answer_of(table)
    assert row["answer"] == "Undecided: BitFit has 0.900 against 0.900."
    assert (row["decision"], row["over"]) == ("undecided", "") and math.isnan(row["chance"])
    assert row["next"] == "One seed is not enough: use more, such as `seeds: [0, 1, 2]`."


def numbers_of(table, noise, rows=400):
    """Return each run's values on fifty parts of the rows: its score, and noise per part."""
    generator = np.random.default_rng(0)
    part_effects = generator.normal(0, noise, len(PART_COLUMNS))
    values = [
        row.value
        + generator.normal(0, 0.01, len(PART_COLUMNS))
        + (row.method != "full") * part_effects
        for row in table.itertuples()
    ]
    values = pd.DataFrame(values, columns=PART_COLUMNS)
    return values.assign(run=table["run"], rows=rows, rows_hash="same")


def test_rows_widen_the_interval_and_more_of_them_would_tell():
    table = runs({"full": [0.9, 0.901, 0.902], "bitfit": [0.897, 0.9, 0.9]})
    alone = answer_of(table)
    quiet, loud = (answer_of(table, row_scores=numbers_of(table, noise)) for noise in (0.001, 0.2))
    assert (alone["over"], quiet["over"]) == ("3 seeds", "3 seeds and 400 dev examples")
    assert (quiet["decision"], loud["decision"]) == ("train", "undecided")
    assert loud["low"] < quiet["low"] <= alone["low"] + 0.01
    assert loud["chance"] < quiet["chance"]
    assert f"about {loud['more_rows']:,} more dev examples" in loud["next"]


@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_are_nested_in_folds_and_count_once_in_every_partition(partitions):
    scores = {"full": [0.9, 0.91, 0.88, 0.9, 0.89], "bitfit": [0.89, 0.92, 0.86, 0.9, 0.88]}
    table = runs({method: values * partitions for method, values in scores.items()})
    table["fold"] = table["seed"] % 5
    numbers = numbers_of(table, 0.1, rows=80)
    row = answer_of(table, row_scores=numbers)
    assert row["over"] == f"{5 * partitions} folds and 400 examples"
    values = numbers[PART_COLUMNS].to_numpy()
    full, bitfit = np.split(values, 2)
    differences = [b - f for f, b in zip(*scores.values(), strict=True)] * partitions
    study = intervals.estimate_nested_study(differences, bitfit - full, 400, 5)
    assert row["chance"] == pytest.approx(intervals.probability_within([study], 0.02))


def test_methods_are_compared_on_the_folds_that_both_have():
    scores = {"full": [0.9, 0.91, 0.8], "bitfit": [0.89, 0.92, 0.81, 0.1], "layernorm": [0.89]}
    table = runs(scores | {"lora-I": [0.9]})
    table["fold"] = table["seed"].where(table["method"] != "lora-I", 4)
    numbers = numbers_of(table, 0.1, rows=80)
    rows = candidates.summarise_methods(table, numbers).set_index("method")
    values = numbers[PART_COLUMNS].to_numpy()[:6]
    differences = [-0.01, 0.01, 0.01]
    study = intervals.estimate_nested_study(differences, values[3:] - values[:3], 240, 3)
    names = ["difference", "low", "high"]
    assert rows.loc["bitfit", names].tolist() == pytest.approx(intervals.mean_interval([study]))
    assert rows.loc["layernorm", "chance"] > 0 and not rows.loc["layernorm", "sure"]
    assert rows.loc["lora-I", [*names, "chance"]].isna().all()
    row = answer_of(table.drop(index=[3, 4, 5, 6]), row_scores=numbers)
    assert row["over"] == "one fold and 80 examples" and row["next"].startswith(
        "One fold is not enough"
    )


def test_both_scores_are_those_on_the_folds_of_both():
    """BitFit lacks a hard fold, on which full scores 0.5. Its accuracy is not above 1."""
    table = runs({"full": [0.98, 0.96, 0.5], "bitfit": [1.0, 0.98]}).assign(planned=5)
    table["fold"] = table["seed"]
    numbers = numbers_of(table, 0.01, rows=80)
    rows = candidates.summarise_methods(table, numbers).set_index("method")
    assert rows["score"].to_dict() == pytest.approx({"full": 0.8133333333, "bitfit": 0.99})
    assert rows.loc["bitfit", "reference_score"] == pytest.approx(0.97)
    assert rows.loc["bitfit", "difference"] == pytest.approx(0.02)
    assert rows["compared"].to_dict() == {"full": 3, "bitfit": 2}
    row = answer_of(table, row_scores=numbers)
    assert row["answer"].startswith("BitFit is enough: 0.990 against 0.970 (")
    made = answers_table(results({"rte": "RTE"}, chosen=table, row_scores=numbers))
    assert made.shown["folds"].tolist() == ["2/5", "3/5"]
    assert made.shown["score"].max() <= "1.000"


@pytest.mark.parametrize("folds", [1, 3])
def test_an_answer_says_that_folds_are_missing(folds):
    scores = {"full": [0.9, 0.91, 0.9], "bitfit": [0.9, 0.9, 0.91]}
    table = runs({method: values[:folds] for method, values in scores.items()})
    table = table.assign(fold=table["seed"], planned=5)
    row = answer_of(table, row_scores=numbers_of(table, 0.3, rows=80))
    said = f"Only {folds} of 5 folds {'is' if folds == 1 else 'are'} compared: "
    assert row["next"] == f"{said}run the same command with more minutes."
    assert row[["more_seeds", "more_rows"]].isna().all()
    row = answer_of(table[table["method"] != "full"], row_scores=numbers_of(table, 0.3, rows=80))
    assert row["next"].startswith("Full fine-tuning has no score yet: run the same command")


def of_two_models(scores, other, across=True):
    """Return runs of a large model, and of a small one whose full fine-tuning trains 2,000."""
    large = runs(scores).assign(model="large", encoder_size=20_000)
    small = runs(other).assign(model="small", encoder_size=3_000)
    small["trainable"] = small["trainable"].clip(upper=2_000)
    small["run"] = "small" + small["run"]
    return pd.concat([large, small], ignore_index=True).assign(across_models=across)


def test_several_models_have_one_answer_which_names_a_model_and_a_method():
    large = {"full": 0.9, "layernorm": 0.9}
    row = answer_of(of_two_models(large, {"full": 0.87, "bitfit": 0.89}))
    assert row["answer"] == "BitFit of small is enough: 0.890 against 0.900 (> 99 %)."
    assert (row["models"], row["model"], row["reference"]) == (
        "large, small",
        "small",
        "Full of large",
    )
    row = answer_of(of_two_models(large, {"full": 0.87, "bitfit": 0.8}))
    assert row["answer"] == "LayerNorm of large is enough: 0.900 against 0.900 (> 99 %)."
    row = answer_of(of_two_models({"full": 0.7}, {"full": 0.9, "bitfit": 0.8}))
    assert row["answer"] == f"{WORTH_IT.replace('tuning', 'tuning of small')} (> 99 %)."


def test_models_of_a_paper_have_an_answer_each():
    both = of_two_models({"full": 0.9, "layernorm": 0.9}, {"full": 0.87}, across=False)
    table = answers_table(results({"rte": "RTE"}, chosen=both)).table
    assert table["models"].tolist() == ["large", "small"]


def test_predictions_that_the_user_brings_are_compared_and_never_named():
    table = runs({"full": 0.9, "bitfit": 0.85, "gpt": 0.95})
    external = table["method"] == "gpt"
    table["encoder_size"] = pd.array(np.where(external, None, 20_000), "Int64")
    table.loc[external, "trainable"] = CLASSIFIER
    row = answer_of(table)
    assert (row["decision"], row["method"], row["reference"]) == ("everything", "BitFit", "Full")
    rows = candidates.summarise_methods(table, NO_ROW_SCORES).set_index("method")
    assert rows.loc["gpt", "difference"] == pytest.approx(0.05)
    assert candidates.sort_methods(rows.reset_index())["method"].iloc[-1] == "gpt"


def test_test_rows_judge_the_runs_of_all_folds_and_are_crossed_with_them():
    table = runs({"full": [0.9, 0.91], "bitfit": [0.89, 0.9]}).assign(decides=False)
    numbers = numbers_of(table, 0.1)
    plain, folds = (
        answer_of(t, row_scores=numbers) for t in (table, table.assign(fold=[0, 1] * 2))
    )
    assert folds["over"] == plain["over"] == "2 seeds and 400 test examples"
    assert folds["chance"] == plain["chance"]


def test_equal_rows_say_nothing_where_the_metric_is_no_share_of_them():
    table = runs({"full": 0.0, "bitfit": 0.0}).assign(metric="matthews_correlation")
    row = answer_of(table, row_scores=equal_rows(table, 400))
    assert row["decision"] == "undecided" and math.isnan(row["chance"])


def test_rows_that_chose_nothing_judge_where_there_are_some():
    dev = runs({"full": [0.9, 0.91, 0.92], "bitfit": [0.99, 0.98, 0.97]}).assign(judges=False)
    scores = {"full": [0.8, 0.801, 0.802], "bitfit": [0.799, 0.8, 0.801]}
    test = runs(scores).assign(judges=True, decides=False, column="rte_test")
    table = pd.concat([dev, test], ignore_index=True)
    both = results({"rte": "RTE"}, chosen=table, row_scores=numbers_of(test, 0.2))
    made = answers_table(both)
    row = made.table.iloc[0]
    assert (row["score"], row["reference_score"]) == pytest.approx((0.8, 0.801))
    assert row["over"] == "3 seeds and 400 test examples"
    assert f"about {row['more_rows']:,} more test examples" in row["next"]
    assert "these scores are from the test set" in made.note


def test_a_title_is_no_link_in_the_sentences():
    chosen = pd.concat([runs({"full": [0.9], "bitfit": [0.9]}, task) for task in ("rte", "cola")])
    titles = {"rte": "[mine](https://a.b)", "cola": "CoLA"}
    made = answers_table(results(titles, chosen=chosen.reset_index(drop=True)))
    assert "\\[mine](https://a.b): Undecided" in made.before


@pytest.mark.parametrize(("rows", "decision"), [(40, "undecided"), (400, "train")])
def test_few_rows_without_a_difference_are_not_sure(rows, decision):
    table = runs({"full": 0.9, "bitfit": 0.9})
    row = answer_of(table, row_scores=equal_rows(table, rows))
    assert (row["decision"], row["high"]) == (decision, pytest.approx(3 / rows))
    assert row["chance"] == pytest.approx(1 - math.exp(-rows * 0.02))
    assert row["most_lost"] == pytest.approx(-math.log(0.05) / rows)


def test_full_that_has_learnt_nothing_is_no_reference():
    table = runs({"full": 0.7, "bitfit": 0.7})
    learnt_nothing = "Full fine-tuning gives the same prediction for every example"
    assert learnt_nothing in answer_of(table.assign(one_answer=True))["next"]
    # The order of probabilities may be right although one class is always the likeliest.
    ranked = table.assign(one_answer=True, metric="roc_auc")
    assert learnt_nothing not in answer_of(ranked)["next"]
    assert learnt_nothing not in answer_of(table)["next"]


def test_methods_on_all_tasks_are_compared_by_their_mean_over_tasks():
    parts = [
        runs({"full": 0.9, "bitfit": [value] * 3}, task=task).assign(at_edge=task == "rte")
        for task, value in (("rte", 0.85), ("cola", 0.92), ("mrpc", 0.91))
    ]
    table = pd.concat([*parts, runs({"layernorm": 0.9}, task="cola")], ignore_index=True)
    row = answer_of(table)
    assert row["answer"] == f"{WORTH_IT} (> 99 %)."
    assert row["next"] == "The nearest smaller method is BitFit: 0.850 against 0.900."
    row = answer_of(table, ALL_TASKS)
    assert (row["method"], row["over"]) == ("BitFit", "3 seeds")
    assert row["difference"] == pytest.approx(np.mean([-0.05, 0.02, 0.01]))


def test_scores_in_different_units_have_no_answer_for_all_tasks():
    tables = [
        runs({"full": value, "bitfit": value}, task=task)
        for task, value in (("rte", 0.9), ("cost", -250.0), ("price", -180.0))
    ]
    of_cost = [table.assign(metric="neg_max_error", margin=50.0) for table in tables[1:]]
    answers = answers_table(
        results({name: name for name in ("rte", "cost")}, chosen=pd.concat([tables[0], of_cost[0]]))
    ).table
    assert answers["task"].tolist() == ["rte", "cost"]
    assert answer_of(pd.concat(of_cost), ALL_TASKS)["method"] == "BitFit"


NO_FULL = "Full fine-tuning has no score: add `full`, or more minutes."


@pytest.mark.parametrize(
    ("scores", "answer", "step"),
    [
        ({"bitfit": 0.9}, "BitFit scores best so far: 0.900.", NO_FULL),
        ({"bitfit": 0.8, "lora-I": 0.91}, "LoRA-I scores best so far: 0.910.", NO_FULL),
        ({"embeddings": 0.9}, "Embeddings score best so far: 0.900.", NO_FULL),
        (
            {"full": [0.9, math.nan], "bitfit": [0.9] * 2},
            "BitFit scores best so far: 0.900.",
            NO_FULL.replace("add `full`", "try smaller learning rates"),
        ),
        (
            {"full": 0.9},
            "Full fine-tuning is the only method with a score.",
            "Add a method that trains fewer parameters, such as `layernorm`.",
        ),
        (
            {"full": 0.7, "bitfit": 0.71},
            "BitFit is enough: 0.710 against 0.700 (> 99 %).",
            "Full fine-tuning scores lower than BitFit: try other learning rates or more epochs.",
        ),
    ],
)
def test_what_keeps_full_from_being_compared_with_is_said(scores, answer, step):
    assert answer_of(runs(scores))[["answer", "next"]].tolist() == [answer, step]

"""Tables and figures that only one paper has: ours beside the paper's."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subtune import papers
from subtune.analysis import parameters
from subtune.analysis.run_scores import train_and_dev_scores
from subtune.core.hub import PAPERS_MODELS
from subtune.methods import find_selection
from subtune.runs import records
from tests.helpers.examples import scored, sums
from tests.helpers.exhibits import dev_scores, made
from tests.unit.analysis.test_statistics import sizes


def gaps(monkeypatch, on_record, **values):
    """The generalisation gaps on RTE of runs with these recorded scores and dev scores."""
    chosen = dev_scores(rte=values)
    chosen["run"] = chosen["method"] + chosen["seed"].astype(str)
    recorded = {run: {"scores": {"train": {"accuracy": s, "f1": 0.1}} if s else {}}
                for run, s in on_record.items()}  # fmt: skip
    monkeypatch.setattr(records, "read_outcome", lambda store, run: recorded[run])
    paper = papers.find_paper("bitfit")
    scores = train_and_dev_scores(chosen, Path("runs"), paper.scored_on_training_set)
    table = made("bitfit", "generalisation_gap", {"train_scores": scores}, ["rte"])
    return table[["method", "score", "RTE", "paper"]].to_numpy().tolist()


def test_the_table_says_train_minus_dev_beside_what_the_paper_says(monkeypatch):
    on_record = {"full0": 0.99, "bitfit0": 0.71, "frozen0": None}
    rows = gaps(monkeypatch, on_record, full=[0.7], bitfit=[0.7], frozen=[0.7])
    assert rows == [
        ["Full", "train", "99.00", "nearly 100 %"],
        ["Full", "dev", "70.00", "–"],
        ["Full", "train − dev", "29.00", "–"],
        ["BitFit", "train", "71.00", "–"],
        ["BitFit", "dev", "70.00", "–"],
        ["BitFit", "train − dev", "1.00", "often less than 2 %"],
    ]


def test_the_gap_of_a_run_without_a_training_score_is_not_recorded(monkeypatch):
    """It was trained before an experiment asked for its score on the training set."""
    on_record = {"full0": None, "bitfit0": None, "bitfit1": 0.72}
    cells = [row[2] for row in gaps(monkeypatch, on_record, full=[0.7], bitfit=[0.6, 0.7])]
    assert cells == ["not recorded", "70.00", "not recorded", "72.00", "70.00", "2.00"]
    diverged = gaps(monkeypatch, {"full0": None}, full=[math.nan])
    assert [row[2] for row in diverged] == ["diverged"] * 3


def table_1(directory, *methods):
    fields = PAPERS_MODELS["bert-large-cased"]["config"]
    (directory / "config.json").write_text(json.dumps(fields))
    selections = {method: find_selection(method, {}).canonical() for method in methods}
    models = {"bert-large-cased": directory}
    return made("spafit", "table1", {}, models=models, selections=selections)


def test_table_1_has_the_papers_columns_and_counts(tmp_path):
    methods = papers.find_paper("spafit").read_printed("parameter_counts")["method"]
    styled = table_1(tmp_path, *methods)
    table = styled.table
    groups = ["group 1", "group 2", "group 3"]
    ours, theirs = "parameters: bert-large-cased", "paper: bert-large-cased"
    assert list(table) == ["method", "N1", "N2", *groups, "outside the layers", ours, theirs]
    assert list(table[ours]) == list(table[theirs])
    names = table["method"].str.extract(r"SPAFIT-(\d+)-(\d+)")
    assert table["N1"].equals(names[0]) and table["N2"].equals(names[1])
    assert (table[names[0].isna()][groups].nunique(axis=1) == 1).all()
    assert set(styled.wide) <= set(table)


def test_a_group_of_layers_shows_what_is_trained_in_its_layers_alone(tmp_path):
    table = table_1(tmp_path, "SPAFIT-8-12-I", "full-bitfit", "frozen").table.set_index("method")
    row = table.loc["SPAFIT-8-12-I", "N1":"outside the layers"].tolist()
    lora = "LoRA (rank 64, alpha 128) on attention.self.*.weight"
    adapted = f"{lora}; intermediate.dense.bias, output.*.bias"
    assert row == ["8", "12", "nothing", "**.bias", adapted, "nothing"]
    trains = table.loc["Full BitFit", "group 3":"outside the layers"].tolist()
    assert trains == [
        "every parameter without **.weight, attention.self.key.bias",
        "every parameter",
    ]
    assert set(table.loc["Frozen", "group 1":"outside the layers"]) == {"nothing"}


def test_the_papers_best_learning_rates_are_beside_ours():
    chosen = scored(
        ("rte", "bitfit", 1.0, None, 7e-4, 0, math.nan),
        ("cola", "bitfit", 1.0, None, 1e-3, 0, 0.5),
    )
    table = made("bitfit", "table6", {"chosen": chosen}, ["rte", "cola"])
    assert table.iloc[0].tolist() == ["RTE", "diverged", "1e-3", "4e-4"]
    assert table["this run: minilm"].tolist() == ["diverged", "1e-3"]
    choices = made("bitfit", "choices", {"chosen": chosen}, ["rte", "cola"])
    assert choices["dev score"].tolist() == ["diverged", 0.5]


def test_diverged_runs_are_in_no_test_and_have_no_mean():
    rte = {"layernorm": [0.6, 0.8], "bitfit": [math.nan] * 2, "frozen": [0.5]}
    chosen = dev_scores(rte=rte)
    tested = made("layernorm", "kruskal_wallis", {"chosen": chosen})["scores"]
    assert not tested.str.startswith("this run").any()
    spread = made("bitfit_plus", "repeat_variance", {"chosen": chosen}).set_index("method")
    assert spread["mean"].to_dict() == {"layernorm": 0.7, "bitfit": "diverged"}
    assert spread.loc["layernorm", "variance"] == 0.02


def test_the_choice_by_information_is_compared_with_the_best_method():
    scores = {
        "b_q": {10: 0.5, 100: 0.9},
        "b_k": {10: 0.4, 100: math.nan},
        "b_v": {10: 0.7, 100: 0.8},
    }
    information = pd.DataFrame({"parameter": ["b_q", "b_k", "b_v", "b_m1"], "task": "squad"})
    table = made(
        "beft",
        "choice_by_information",
        {
            "sizes": sizes(scores | {"full": {10: 1.0}}),
            "parameter_information": information.assign(information=[1.0, 0.0, 3.0, 99.0]),
        },
        ["squad"],
    )
    assert table.iloc[:, 2:].to_numpy().tolist() == [
        ["10", "b_v 75.0%, b_q 25.0%, b_k 0.0%", "b_v 0.7000, b_q 0.5000, b_k 0.4000", "0.0000"],
        ["100", "b_v 75.0%, b_q 25.0%, b_k 0.0%", "b_q 0.9000, b_v 0.8000", "0.1000"],
    ]


SHARES = parameters.information_tables(
    pd.concat([sums("qnli"), sums("sst2", output_LayerNorm=3.0)])
)["layernorm_information"]


def heat_maps(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_the_largest_change_is_the_darkest_and_its_parameter_comes_first():
    rows = [("b_v", 0.1, 0.1), ("b_q", 0.3, 0.1), ("b_m2", 0.2, 0.9)]
    table = pd.DataFrame(rows, columns=["parameter", 0, 1]).melt("parameter", var_name="layer")
    table = table.rename(columns={"value": "change"}).assign(model="m", method="bitfit", task="rte")
    [panel] = heat_maps(made("bitfit", "figure1", {"parameter_changes": table}, ["rte"]))
    assert [label.get_text() for label in panel.get_yticklabels()] == ["b_m2", "b_q", "b_v"]
    # Layers are numbered from 1, and the average follows them.
    columns = {label.get_position()[0]: label.get_text() for label in panel.get_xticklabels()}
    assert columns == {0: "1", 1: "2", 2: "avg."}
    [image] = panel.images
    shown = np.array(image.get_array())
    assert shown == pytest.approx(np.array([[0.2, 0.9, 0.55], [0.3, 0.1, 0.2], [0.1, 0.1, 0.1]]))
    assert darkens(image) and image.get_clim() == (0.1, 0.9)


def darkens(image):
    """Return whether colours become darker from the smallest to the largest value."""
    low, high = image.get_clim()
    colours = image.cmap(image.norm(np.linspace(low, high, 20)))[:, :3]
    return bool((np.diff(colours @ [0.299, 0.587, 0.114]) < 0).all())


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_cells_that_cannot_be_read_are_hatched_and_have_no_number():
    figure = made("layernorm", "figure3", {"layernorm_information": SHARES}, ["qnli", "sst2"])
    assert all(darkens(axes.images[0]) for axes in heat_maps(figure))
    hatched = {axes.get_title(): len(axes.patches) for axes in heat_maps(figure)}
    assert hatched == {
        "this run: weight": 0, "this run: bias": 0, "paper: weight": 5, "paper: bias": 0,
    }  # fmt: skip
    [weights] = [axes for axes in heat_maps(figure) if axes.get_title() == "paper: weight"]
    assert len(texts(weights)) == 2 * 24 - 5


def test_ours_and_the_papers_global_information_are_on_one_scale():
    ours = parameters.global_layernorm_information(SHARES)
    figure = made("layernorm", "figure4", {"global_layernorm_information": ours})
    run, paper = heat_maps(figure)
    assert darkens(run.images[0])
    assert texts(run) == ["1.00"] * 4
    printed = papers.find_paper("layernorm").read_printed("figure4")
    values = printed.pivot(index="layer", columns="part", values="value")
    assert texts(paper) == [f"{value:.2f}" for value in np.ravel(values[["weight", "bias"]])]
    limits = np.array([axes.images[0].get_clim() for axes in (run, paper)])
    # An even share is 2 tasks / 2 layers here, and 7.98 / 24 with the paper's rounding.
    assert limits[0] / 1 == pytest.approx(limits[1] / (7.98 / 24))
    bars = [axes.get_xlabel() for axes in figure.axes if axes not in (run, paper)]
    assert bars == ["sum over 2 tasks", "sum over 8 tasks"]

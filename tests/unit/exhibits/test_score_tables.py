"""Methods by task, ours above a paper's; by training rows; and with their parameters."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from subtune import papers
from subtune.analysis.run_scores import train_and_dev_scores
from subtune.core.hub import PAPERS_MODELS
from subtune.exhibits import output
from subtune.exhibits.score_tables import (
    compare_with_printed,
    mark_differences,
    scores_by_train_size_table,
    select_printed_scores,
)
from subtune.methods import find_selection
from subtune.runs import records
from subtune.tasks import TASKS
from subtune.tasks.task import list_score_columns
from tests.helpers.examples import scored
from tests.helpers.exhibits import made, results, titled
from tests.unit.analysis.test_statistics import sizes


def styled(chosen, *tasks, paper="layernorm", exhibit="table2"):
    return made(paper, exhibit, {"chosen": chosen}, tasks=titled(*tasks))


def compared(chosen, paper="layernorm", exhibit="table2", tasks=("rte",)):
    return styled(chosen, *(TASKS[task] for task in tasks), paper=paper, exhibit=exhibit).table


AVERAGE = "average of CoLA, MRPC, RTE"


def averaged(*rows, tasks=("cola", "mrpc", "rte")):
    table = scored(*[(task, "bitfit", 1.0, None, 1e-3, seed, v) for task, seed, v in rows])
    reproduced = compare_with_printed(
        table, papers.find_paper("bitfit_plus").read_printed("scores")
    )
    return compared(table, "bitfit_plus", "figure3", tasks), reproduced


def test_a_comparison_shows_ours_above_the_papers_with_exact_counts():
    rows = [("rte", "full", 1.0, None, 1e-5, seed, value) for seed, value in ((0, 0.8), (1, 0.9))]
    rows.append(("rte", "layernorm", 1.0, None, 1e-3, 0, 0.8))
    table = compared(scored(*rows).assign(trainable=[2000, 2000, 50]))
    ours = "this run: minilm, mini tasks, not the originals"
    assert table.iloc[0].tolist() == [ours, "Full", "2,000", "100.000%", "0.8500 ± 0.0707"]
    assert table.iloc[1].tolist() == [ours, "LayerNorm", "50", "2.500%", "0.8000"]
    paper = "paper: bert-large-cased"
    assert table.iloc[4].tolist() == [paper, "LayerNorm", "51,202", "0.015%", "0.7401"]


def test_with_an_own_task_the_paper_shows_only_the_same_methods():
    weather = TASKS["rte"].model_copy(update={"name": "weather", "title": "Weather"})
    rows = [(task, "layernorm", 1.0, None, 1e-3, 0, 0.8) for task in ("weather", "rte")]
    table = styled(scored(*rows), weather, TASKS["rte"]).table
    assert table[["scores of", "method", "Weather", "RTE"]].to_numpy().tolist() == [
        ["this run: minilm, mini tasks, not the originals", "LayerNorm", "0.8000", "0.8000"],
        ["paper: bert-large-cased", "LayerNorm", "–", "0.7401"],
    ]


@pytest.mark.parametrize(
    ("paper", "exhibit", "task", "trained", "shown"),
    [
        ("bitfit", "table1", "rte", ["bitfit", "frozen"], ["BitFit"]),
        ("bitfit", "table2", "rte", ["full", "b_q", "mine"], ["Full", "mine"]),
        # Another exhibit prints it, but for other tasks.
        ("bitfit", "pos", "ud_ewt", ["bitfit", "frozen"], ["BitFit", "Frozen"]),
        # An exhibit of averages counts for every task.
        ("bitfit_plus", "figure3", "rte", ["bitfit", "g_LN1,g_LN2"], ["BitFit"]),
    ],
)
def test_methods_that_another_exhibit_prints_are_left_out_of_ours(
    paper, exhibit, task, trained, shown
):
    rows = [(task, name, 1.0, None, 1e-3, 0, 0.9) for name in trained]
    table = compared(scored(*rows), paper, exhibit, [task])
    assert table[table["scores of"].str.startswith("this run")]["method"].tolist() == shown


def test_a_papers_shares_of_parameters_are_shown():
    table = compared(scored(("rte", "g_LN1", 1.0, None, 1e-3, 0, 0.5)), "bitfit_plus", "figure7")
    theirs = table[table["scores of"].str.startswith("paper")].set_index("method")["% of full"]
    assert theirs["BitFit"] == "0.09%"
    assert theirs["bitfit without b_m2,b_q"] == "0.05%"
    # The paper's text has no such numbers.
    assert theirs["bitfit,g_LN1,g_LN2"] == "–"


def test_a_comparison_ends_with_an_average_where_the_paper_has_one():
    table, reproduced = averaged(("cola", 0, 0.4), ("rte", 0, 0.6), ("mrpc", 0, 0.8))
    assert table.columns[-1] == AVERAGE
    assert table[AVERAGE].iloc[0] == "60.00"
    bitfit = table[(table["method"] == "BitFit") & table["scores of"].str.startswith("paper")]
    # The paper's own replication, and the original paper's scores.
    assert bitfit[AVERAGE].tolist() == ["73.3", "73.8"]
    assert "Full (from the BitFit paper)" in table["method"].tolist()
    assert reproduced.query("task == 'average'")["ours"].dropna().round(6).unique() == [0.6]


def test_an_average_spreads_over_the_seeds_that_have_every_task():
    first = [("cola", 0, 0.5), ("rte", 0, 0.6), ("mrpc", 0, 0.7)]
    second = [("cola", 1, 0.7), ("rte", 1, 0.8), ("mrpc", 1, 0.9)]
    table, reproduced = averaged(*first, *second, ("rte", 2, 1.0))
    assert table[AVERAGE].iloc[0] == "70.00 ± 14.14"
    row = reproduced.query("task == 'average'").dropna(subset=["ours"]).iloc[0]
    assert (row["seeds"], round(row["standard_deviation"], 4)) == (2, 0.1414)


def test_an_average_over_other_tasks_is_not_beside_the_papers():
    table, reproduced = averaged(("sst2", 0, 0.9), ("rte", 0, 0.6), tasks=("sst2", "rte"))
    assert table.iloc[0][AVERAGE] == "–"
    assert table.iloc[0]["average of this run"] == "75.00"
    assert table.iloc[-1]["average of this run"] == "–"
    assert reproduced.query("task == 'average'")["ours"].isna().all()


def test_the_best_score_is_bold_and_full_does_not_compete_in_spafit():
    methods = {"full": 0.9, "lora-I": 0.7, "lora-II": 0.7, "full-bitfit": 0.6}
    chosen = scored(*[("rte", m, 1.0, None, 1e-3, 0, value) for m, value in methods.items()])
    best = styled(chosen, TASKS["rte"], paper="spafit").bold
    assert best["RTE"].tolist()[:4] == [False, True, True, False]
    assert "method" not in best


def test_what_differs_from_full_fine_tuning_is_marked():
    """The test needs at least six columns that all differ."""
    scores = pd.DataFrame({f"c{n}": [0.9, 0.8 + n / 100, None] for n in range(6)})
    table = pd.DataFrame({"scores of": "run", "method": ["Full", "BitFit", "Random"]})
    marked = mark_differences(table, scores)
    assert marked["method"].tolist() == ["Full", "BitFit †", "Random"]
    assert mark_differences(table, scores.drop(columns="c5")).equals(table)
    assert mark_differences(table[1:], scores[1:]).equals(table[1:])


def test_a_method_that_diverged_says_so_in_every_format_and_is_never_best(tmp_path):
    rows = [
        ("rte", "full", 1.0, None, 1e-5, 0, 0.5),
        ("rte", "layernorm", 1.0, None, 1e-3, 0, math.nan),
        ("cola", "full", 1.0, None, 1e-5, 0, math.nan),
        ("cola", "layernorm", 1.0, None, 1e-3, 0, 0.2),
    ]
    shown = styled(scored(*rows), TASKS["rte"], TASKS["cola"])
    assert shown.table.iloc[0, 4:6].tolist() == ["0.5000", "diverged"]
    assert shown.table.iloc[1, 4:6].tolist() == ["diverged", "0.2000"]
    assert shown.bold.iloc[:2, :2].to_numpy().tolist() == [[True, False], [False, True]]
    for ending in ("csv", "md", "tex"):
        output.write_table(shown, [tmp_path / f"table2.{ending}"])
        text = (tmp_path / f"table2.{ending}").read_text()
        assert text.count("diverged") == 2 and "nan" not in text


def test_an_average_over_a_column_that_diverged_is_none():
    table, reproduced = averaged(("cola", 0, 0.4), ("rte", 0, math.nan), ("mrpc", 0, 0.8))
    assert table[AVERAGE].iloc[0] == "diverged"
    assert reproduced.query("task in ('average', 'rte')")["ours"].isna().all()
    assert reproduced.query("task == 'cola'")["ours"].notna().any()


def test_scores_on_a_treebank_are_in_the_column_of_its_name():
    ours = scored(("ud_ewt", "bitfit", 1.0, None, 1e-3, 0, 0.9))
    table = compared(ours, "bitfit", "pos", ["ud_ewt"])
    assert list(table)[4:] == ["POS (UD-EWT)", "POS (PTB)"]
    assert table.iloc[0, 4:].tolist() == ["90.00", "–"]
    assert set(table["POS (UD-EWT)"][1:]) == {"–"}
    assert table["POS (PTB)"][1:].tolist() == ["97.2", "97.2", "97.4", "97.4", "97.2", "97.1"]
    # Scores on the paper's own treebank are above the printed ones.
    table = compared(scored(("ptb", "full", 1.0, None, 1e-3, 0, 0.9)), "bitfit", "pos", ["ptb"])
    assert list(table)[4:] == ["POS (PTB)"]
    assert table["POS (PTB)"].tolist()[:2] == ["90.00", "97.2"]


def by_train_rows(table, *methods):
    return scores_by_train_size_table(results({"squad": "SQuAD"}, sizes=table), *methods)


def test_a_row_is_a_number_of_training_rows_and_a_column_a_method():
    table = sizes({"full": {1000: 0.9, 100: 0.5}, "bitfit": {100: 0.6}})
    shown = by_train_rows(table)
    assert shown.table.to_numpy().tolist() == [
        ["minilm", "SQuAD", "exact match", "100", "0.5000", "0.6000"],
        ["minilm", "SQuAD", "exact match", "1,000", "0.9000", "–"],
    ]
    assert list(shown.table)[-2:] == ["Full", "BitFit"]
    assert shown.bold[["Full", "BitFit"]].to_numpy().tolist() == [[False, True], [True, False]]
    assert list(by_train_rows(table, ["bitfit"]).table)[-1:] == ["BitFit"]
    diverged = pd.concat([table, sizes({"full": {100: float("nan")}}, seed=1)])
    shown = by_train_rows(diverged)
    assert shown.table["Full"].tolist() == ["diverged", "0.9000"]
    assert shown.bold["BitFit"].tolist() == [True, False]


def gaps(monkeypatch, on_record, *values):
    """The generalisation gaps on RTE of runs with these recorded scores and dev scores."""
    chosen = scored(*[("rte", m, 1.0, None, 1e-5, seed, value) for m, seed, value in values])
    chosen["run"] = chosen["method"] + chosen["seed"].astype(str)
    recorded = {run: {"scores": {"train": {"accuracy": s, "f1": 0.1}} if s else {}}
                for run, s in on_record.items()}  # fmt: skip
    monkeypatch.setattr(records, "read_outcome", lambda store, run: recorded[run])
    paper = papers.find_paper("bitfit")
    scores = train_and_dev_scores(chosen, Path("runs"), paper.scored_on_training_set)
    rte = titled(TASKS["rte"])
    table = made("bitfit", "generalisation_gap", {"train_scores": scores}, tasks=rte)
    return table[["method", "score", "RTE", "paper"]].to_numpy().tolist()


def test_the_table_says_train_minus_dev_beside_what_the_paper_says(monkeypatch):
    on_record = {"full0": 0.99, "bitfit0": 0.71, "frozen0": None}
    rows = gaps(monkeypatch, on_record, *[(m, 0, 0.7) for m in ("full", "bitfit", "frozen")])
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
    values = ("full", 0, 0.7), ("bitfit", 0, 0.6), ("bitfit", 1, 0.7)
    cells = [row[2] for row in gaps(monkeypatch, on_record, *values)]
    assert cells == ["not recorded", "70.00", "not recorded", "72.00", "70.00", "2.00"]
    nan = float("nan")
    assert [row[2] for row in gaps(monkeypatch, {"full0": None}, ("full", 0, nan))] == [
        "diverged"
    ] * 3


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


def test_scores_are_in_the_papers_unit_and_printed_scores_have_its_digits():
    rows = [("rte", "bitfit", 1.0, None, 1e-3, seed, value) for seed, value in ((0, 0.8), (1, 0.9))]
    shown = {
        paper: compared(scored(*rows), paper, exhibit)["RTE"].tolist()
        for paper, exhibit in (("bitfit", "table2"), ("layernorm", "table2"), ("spafit", "table2"))
    }
    assert shown["bitfit"][:3] == ["85.00 ± 7.07", "71.4", "76.5"]
    assert shown["layernorm"][:3] == ["0.8500 ± 0.0707", "0.7653", "0.7473"]
    assert shown["spafit"][:3] == ["0.8500 ± 0.0707", "0.76", "0.61"]


def test_sizes_of_training_sets_are_above_the_scores_and_are_never_best():
    tasks = [TASKS[name] for name in ("mnli", "wnli", "rte")]
    chosen = scored(*[(task.name, "bitfit", 1.0, None, 1e-3, 0, 0.9) for task in tasks])
    shown = styled(chosen, *tasks, paper="bitfit", exhibit="table1")
    rows = shown.table.drop(columns=["method", "parameters", "% of full"]).to_numpy().tolist()
    assert rows[0] == ["training examples: this run", *["2.5k"] * 4]
    assert rows[1] == ["training examples: paper", "393k", "393k", "–", "2.5k"]
    assert rows[2] == [
        "this run: minilm, mini tasks, not the originals",
        "–",
        "–",
        "90.00",
        "90.00",
    ]
    assert shown.bold["RTE"].tolist()[:3] == [False, False, True]


def test_printed_table_2_is_complete_and_in_the_columns_of_ours():
    table = select_printed_scores(papers.find_paper("layernorm").read_printed("scores"), ["table2"])
    order = ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp")
    columns = [column.key for column in list_score_columns([TASKS[name] for name in order], {})]
    assert len(table) == 36 and list(table["task"].drop_duplicates()) == columns


OURS = [("rte", "bitfit", 1.0, None, 1e-3, seed, v) for seed, v in ((0, 0.7), (1, 0.8))]


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    theirs = papers.find_paper("bitfit").read_printed("scores")
    table = compare_with_printed(scored(*OURS), theirs, scored(OURS[0]).assign(value=0.6))
    assert len(table) == len(theirs)
    ours = table.dropna(subset=["ours"])
    assert set(ours["method"]) == {"bitfit"}
    splits = ours.drop_duplicates("split").set_index("split")
    assert splits["ours"].to_dict() == pytest.approx({"validation": 0.75, "test": 0.6})
    assert splits["seeds"].to_dict() == {"validation": 2, "test": 1}
    assert (ours["difference"] == ours["ours"] - ours["reported"]).all()
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()
    diverged = scored(*OURS).assign(value=math.nan)
    assert compare_with_printed(diverged, theirs)["ours"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    rows = scored(*OURS).assign(model="roberta-base")
    table = compare_with_printed(rows, papers.find_paper("bitfit").read_printed("scores"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}

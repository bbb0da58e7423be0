"""Methods by task, ours above a paper's, and by training rows."""

import math

import pandas as pd
import pytest

from subtune import papers
from subtune.exhibits import output
from subtune.exhibits.score_tables import (
    _map_averages_to_columns,
    compare_with_printed,
    mark_differences,
    scores_by_train_size_table,
)
from subtune.tasks import TASKS
from tests.helpers.exhibits import dev_scores, made, results
from tests.unit.analysis.test_statistics import sizes


def styled(chosen, paper="layernorm", exhibit="table2"):
    return made(paper, exhibit, {"chosen": chosen}, chosen["task"].unique())


def compared(chosen, paper="layernorm", exhibit="table2"):
    return styled(chosen, paper, exhibit).table


AVERAGE = "average of CoLA, MRPC, RTE"


def averaged(**scores):
    """The table and the printed scores of BitFit+, with these scores of BitFit's seeds by task."""
    table = dev_scores(**{task: {"bitfit": values} for task, values in scores.items()})
    printed = papers.find_paper("bitfit_plus").read_printed("scores")
    return compared(table, "bitfit_plus", "figure3"), compare_with_printed(table, printed)


def test_a_comparison_shows_ours_above_the_papers_with_exact_counts():
    chosen = dev_scores(rte={"full": [0.8, 0.9], "layernorm": [0.8]})
    table = compared(chosen.assign(trainable=[2000, 2000, 50]))
    ours = "this run: minilm, mini tasks, not the originals"
    assert table.iloc[0].tolist() == [ours, "Full", "2,000", "100.000%", "0.8500 ± 0.0707"]
    assert table.iloc[1].tolist() == [ours, "LayerNorm", "50", "2.500%", "0.8000"]
    paper = "paper: bert-large-cased"
    assert table.iloc[4].tolist() == [paper, "LayerNorm", "51,202", "0.015%", "0.7401"]


def test_with_an_own_task_the_paper_shows_only_the_same_methods():
    weather = TASKS["rte"].model_copy(update={"name": "weather", "title": "Weather"})
    chosen = dev_scores(weather={"layernorm": [0.8]}, rte={"layernorm": [0.8]})
    table = made("layernorm", "table2", {"chosen": chosen}, [weather, "rte"]).table
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
    table = compared(dev_scores(**{task: {name: [0.9] for name in trained}}), paper, exhibit)
    assert table[table["scores of"].str.startswith("this run")]["method"].tolist() == shown


def test_a_papers_shares_of_parameters_are_shown():
    table = compared(dev_scores(rte={"g_LN1": [0.5]}), "bitfit_plus", "figure7")
    theirs = table[table["scores of"].str.startswith("paper")].set_index("method")["% of full"]
    assert theirs["BitFit"] == "0.09%"
    assert theirs["bitfit without b_m2,b_q"] == "0.05%"
    # The paper's text has no such numbers.
    assert theirs["bitfit,g_LN1,g_LN2"] == "–"


def test_a_comparison_ends_with_an_average_where_the_paper_has_one():
    table, reproduced = averaged(cola=[0.4], mrpc=[0.8], rte=[0.6])
    assert table.columns[-1] == AVERAGE
    assert table[AVERAGE].iloc[0] == "60.00"
    bitfit = table[(table["method"] == "BitFit") & table["scores of"].str.startswith("paper")]
    # The paper's own replication, and the original paper's scores.
    assert bitfit[AVERAGE].tolist() == ["73.3", "73.8"]
    assert "Full (from the BitFit paper)" in table["method"].tolist()
    assert reproduced.query("task == 'average'")["ours"].dropna().round(6).unique() == [0.6]


def test_an_average_spreads_over_the_seeds_that_have_every_task():
    table, reproduced = averaged(cola=[0.5, 0.7], mrpc=[0.7, 0.9], rte=[0.6, 0.8, 1.0])
    assert table[AVERAGE].iloc[0] == "70.00 ± 14.14"
    row = reproduced.query("task == 'average'").dropna(subset=["ours"]).iloc[0]
    assert (row["seeds"], round(row["standard_deviation"], 4)) == (2, 0.1414)


def test_an_average_over_other_tasks_is_not_beside_the_papers():
    table, reproduced = averaged(sst2=[0.9], rte=[0.6])
    assert table.iloc[0][AVERAGE] == "–"
    assert table.iloc[0]["average of this run"] == "75.00"
    assert table.iloc[-1]["average of this run"] == "–"
    assert reproduced.query("task == 'average'")["ours"].isna().all()


def test_a_scorer_keeps_its_unit_and_is_in_no_average_or_test():
    table = dev_scores(rte={"full": [0.7], "bitfit": [0.6]}, cola={"full": [0.5], "bitfit": [0.4]})
    is_cost = table["task"] == "cola"
    mixed = table.assign(
        value=table["value"].mask(is_cost, -250.0),
        metric=table["metric"].mask(is_cost, "neg_max_error"),
    )
    assert "average of this run" in compared(table, "bitfit_plus", "figure3")
    shown = compared(mixed, "bitfit_plus", "figure3")
    assert shown[["RTE", "CoLA"]].iloc[0].tolist() == ["70.00", "-250.0000"]
    assert "average of this run" not in shown


def test_an_average_over_tasks_of_ones_own_has_their_titles():
    titles = {"weather": "Weather", "rte": "RTE"}
    found = _map_averages_to_columns(["weather", "cola", "tides"], titles)
    assert [*found] == ["average of Weather, CoLA, tides", "average of this run"]


def test_the_best_score_is_bold_and_full_does_not_compete_in_spafit():
    methods = {"full": [0.9], "lora-I": [0.7], "lora-II": [0.7], "full-bitfit": [0.6]}
    best = styled(dev_scores(rte=methods), paper="spafit").bold
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
    on_rte, on_cola = (
        {"full": [0.5], "layernorm": [math.nan]},
        {"full": [math.nan], "layernorm": [0.2]},
    )
    shown = styled(dev_scores(rte=on_rte, cola=on_cola))
    assert shown.table.iloc[0, 4:6].tolist() == ["0.5000", "diverged"]
    assert shown.table.iloc[1, 4:6].tolist() == ["diverged", "0.2000"]
    assert shown.bold.iloc[:2, :2].to_numpy().tolist() == [[True, False], [False, True]]
    for ending in ("csv", "md", "tex"):
        output.write_table(shown, [tmp_path / f"table2.{ending}"])
        text = (tmp_path / f"table2.{ending}").read_text()
        assert text.count("diverged") == 2 and "nan" not in text


def test_an_average_over_a_column_that_diverged_is_none():
    table, reproduced = averaged(cola=[0.4], mrpc=[0.8], rte=[math.nan])
    assert table[AVERAGE].iloc[0] == "diverged"
    assert reproduced.query("task in ('average', 'rte')")["ours"].isna().all()
    assert reproduced.query("task == 'cola'")["ours"].notna().any()


def test_scores_on_a_treebank_are_in_the_column_of_its_name():
    table = compared(dev_scores(ud_ewt={"bitfit": [0.9]}), "bitfit", "pos")
    assert list(table)[4:] == ["POS (UD-EWT)", "POS (PTB)"]
    assert table.iloc[0, 4:].tolist() == ["90.00", "–"]
    assert set(table["POS (UD-EWT)"][1:]) == {"–"}
    assert table["POS (PTB)"][1:].tolist() == ["97.2", "97.2", "97.4", "97.4", "97.2", "97.1"]
    # Scores on the paper's own treebank are above the printed ones.
    table = compared(dev_scores(ptb={"full": [0.9]}), "bitfit", "pos")
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


def test_scores_are_in_the_papers_unit_and_printed_scores_have_its_digits():
    for paper, shown in {
        "bitfit": ["85.00 ± 7.07", "71.4", "76.5"],
        "layernorm": ["0.8500 ± 0.0707", "0.7653", "0.7473"],
        "spafit": ["0.8500 ± 0.0707", "0.76", "0.61"],
    }.items():
        assert compared(dev_scores(rte={"bitfit": [0.8, 0.9]}), paper)["RTE"].tolist()[:3] == shown


def test_sizes_of_training_sets_are_above_the_scores_and_are_never_best():
    chosen = dev_scores(mnli={"bitfit": [0.9]}, wnli={"bitfit": [0.9]}, rte={"bitfit": [0.9]})
    shown = styled(chosen, "bitfit", "table1")
    rows = shown.table.drop(columns=["method", "parameters", "% of full"]).to_numpy().tolist()
    assert rows[0] == ["training examples: this run", *["2.5k"] * 4]
    assert rows[1] == ["training examples: paper", "393k", "393k", "–", "2.5k"]
    assert rows[2][1:] == ["–", "–", "90.00", "90.00"]
    assert shown.bold["RTE"].tolist()[:3] == [False, False, True]


OURS = dev_scores(rte={"bitfit": [0.7, 0.8]})


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    theirs = papers.find_paper("bitfit").read_printed("scores")
    table = compare_with_printed(OURS, theirs, OURS[:1].assign(value=0.6))
    assert len(table) == len(theirs)
    ours = table.dropna(subset=["ours"])
    assert set(ours["method"]) == {"bitfit"}
    splits = ours.drop_duplicates("split").set_index("split")
    assert splits["ours"].to_dict() == pytest.approx({"validation": 0.75, "test": 0.6})
    assert splits["seeds"].to_dict() == {"validation": 2, "test": 1}
    assert (ours["difference"] == ours["ours"] - ours["reported"]).all()
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()
    assert compare_with_printed(OURS.assign(value=math.nan), theirs)["ours"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    ours = OURS.assign(model="roberta-base")
    table = compare_with_printed(ours, papers.find_paper("bitfit").read_printed("scores"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}

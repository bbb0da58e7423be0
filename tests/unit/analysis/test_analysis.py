"""The paper's analyses, against numbers worked out by hand and against what the paper prints."""

import pandas as pd
import pytest

from subtune import reported
from subtune.analysis import changes, gap, information, reproduction, scores, significance
from subtune.models.families import CANONICAL
from subtune.tables import choices, comparison, layernorm, writing
from subtune.tasks import TASKS

PAPER_ORDER = [
    TASKS[name] for name in ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp")
]


def scored(*rows) -> pd.DataFrame:
    names = ["model", "task", "method", "fraction", "scope", "learning_rate", "seed", "value"]
    table = pd.DataFrame([("minilm", *row) for row in rows], columns=names)
    extra = {"column": table["task"], "metric": "accuracy", "decides": True}
    return table.assign(run="r", best_epoch=1, trainable=10, **extra)


def sums(**information) -> pd.DataFrame:
    """Two layers: every component of size 2 and information 1, but for those given."""
    rows = [
        (f"encoder.layer.{layer}.{name}.{part}", 2, information.get(name.replace(".", "_"), 1.0))
        for layer in (0, 1)
        for name in CANONICAL.components
        for part in ("weight", "bias")
    ]
    rows.append(("pooler.dense.weight", 4, 99.0))
    return pd.DataFrame(rows, columns=["parameter", "size", "information"])


def test_the_kruskal_wallis_test_gives_the_printed_p_values_to_every_printed_digit():
    chosen = scored(
        ("rte", "bitfit", 1.0, "", 1e-3, 0, 0.5), ("rte", "layernorm", 1.0, "", 1e-3, 0, 0.6)
    )
    table = significance.kruskal_wallis_table(chosen).set_index("scores")
    for name in ("table2 (validation)", "table3 (test)", "table2 + table3"):
        row = table.loc[f"paper's {name}"]
        assert round(row["p_value"], 5) == row["reported"]
    assert table.loc["paper's table2 + table3", "n_bitfit"] == 18


def test_groups_without_any_difference_are_not_different():
    assert significance.kruskal_wallis([0.5, 0.5], [0.5, 0.5]) == 1.0


def test_the_best_learning_rate_has_the_highest_mean_over_seeds():
    table = scored(
        ("rte", "full", 1.0, "", 1e-5, 0, 0.9),
        ("rte", "full", 1.0, "", 1e-5, 1, 0.5),
        ("rte", "full", 1.0, "", 3e-5, 0, 0.8),
        ("rte", "full", 1.0, "", 3e-5, 1, 0.8),
        ("cola", "full", 1.0, "", 1e-5, 0, 0.3),
        ("cola", "full", 1.0, "", 3e-5, 0, 0.2),
    )
    chosen = scores.choose(table).groupby("task")["learning_rate"].unique()
    assert chosen["rte"].tolist() == [3e-5]
    assert chosen["cola"].tolist() == [1e-5]


def test_methods_keep_their_order_whichever_learning_rate_is_chosen():
    table = scored(
        ("rte", "full", 1.0, "", 1e-5, 0, 0.7),
        ("rte", "bitfit", 1.0, "", 1e-5, 0, 0.9),
        ("rte", "full", 1.0, "", 3e-5, 0, 0.8),
    )
    assert scores.choose(table)["method"].tolist() == ["full", "bitfit"]


def test_of_equal_learning_rates_the_smaller_is_chosen():
    table = scored(("rte", "full", 1.0, "", 3e-5, 0, 0.9), ("rte", "full", 1.0, "", 1e-5, 0, 0.9))
    assert scores.choose(table)["learning_rate"].tolist() == [1e-5]


def test_both_columns_of_mnli_come_from_the_run_that_is_best_on_matched():
    table = scored(
        ("mnli", "full", 1.0, "", 1e-5, 0, 0.9),
        ("mnli", "full", 1.0, "", 1e-5, 0, 0.1),
        ("mnli", "full", 1.0, "", 3e-5, 0, 0.8),
        ("mnli", "full", 1.0, "", 3e-5, 0, 0.8),
    ).assign(column=["mnli_matched", "mnli_mismatched"] * 2, decides=[True, False] * 2)
    assert scores.choose(table)["value"].tolist() == [0.9, 0.1]


def test_components_are_ranked_by_mean_information_normalised_per_task():
    # Per component the mean is (2 weights + 2 biases) · information / 8 entries.
    one = sums(output_LayerNorm=3.0)
    other = sums(output_LayerNorm=0.0, attention_self_query=2000.0)
    table = information.component_ranking(
        information.component_shares({"a": one, "b": other})
    ).set_index("component")
    assert table.loc["output.LayerNorm", "information"] == pytest.approx(3 / 10)
    assert table.loc["attention.self.query", "information"] == pytest.approx(1 / 10 + 2000 / 2006)
    assert table["information"].sum() == pytest.approx(2)
    assert table.loc["attention.self.query", "rank"] == 1
    assert table.loc["output.LayerNorm", "reported_rank"] == 1


def test_a_tasks_layernorm_shares_sum_to_1_and_the_global_ones_to_the_number_of_tasks():
    shares = information.layernorm_by_layer({"a": sums(), "b": sums(output_LayerNorm=5.0)})
    assert shares.groupby("task")["share"].sum().to_dict() == pytest.approx(
        {"a": 1, "b": 1, "global": 2}
    )


def test_a_components_change_is_the_mean_over_its_weights_and_biases():
    table = pd.DataFrame(
        {
            "parameter": [
                "encoder.layer.3.output.dense.weight",
                "encoder.layer.3.output.dense.bias",
            ],
            "mean_abs_change": [0.1, 0.5],
            "size": [30, 10],
        }
    )
    [row] = changes.changes_by_component({"rte": [table]}).to_dict("records")
    assert row == {
        "task": "rte",
        "component": "output.dense",
        "layer": 3,
        "change": pytest.approx(0.2),
    }


def test_every_curve_ends_at_the_whole_selection():
    table = scored(
        ("rte", "layernorm", 1.0, "", 1e-3, 0, 0.7),
        ("rte", "layernorm", 0.2, "cv", 1e-3, 0, 0.6),
        ("rte", "full", 1.0, "", 1e-3, 0, 0.9),
    )
    curves = scores.with_whole_selection(table)
    ends = curves[(curves["scope"] == "cv") & (curves["fraction"] == 1)]
    assert ends["value"].tolist() == [0.7]


def test_printed_table_2_is_complete_and_in_the_columns_of_ours():
    printed = reported.scores("layernorm", "table2")
    columns = [column.key for column in scores.columns_of(PAPER_ORDER)]
    assert len(printed) == 36
    assert list(printed["task"].drop_duplicates()) == columns


def compared(chosen, source="layernorm", exhibit="table2", tasks=("rte",)):
    columns = scores.columns_of([TASKS[task] for task in tasks], source)
    return comparison.comparison(
        chosen, reported.scores(source, exhibit), columns, source, "builtin data"
    )


def test_a_comparison_shows_ours_above_the_papers_with_exact_counts():
    rows = [("rte", "full", 1.0, "", 1e-5, 0, 0.9), ("rte", "layernorm", 1.0, "", 1e-3, 0, 0.8)]
    table = compared(scored(*rows).assign(trainable=[2000, 50]))
    ours = "this run: minilm, builtin data"
    assert table.iloc[0].tolist() == [ours, "Full", "2,000", "100.000%", "0.9000"]
    assert table.iloc[1].tolist() == [ours, "LayerNorm", "50", "2.500%", "0.8000"]
    paper = "paper: bert-large-cased"
    assert table.iloc[4].tolist() == [paper, "LayerNorm", "51,202", "0.015%", "0.7401"]


AVERAGE = "average of CoLA, MRPC, RTE"


def averaged(*rows, tasks=("cola", "mrpc", "rte")):
    table = scored(*[(task, "bitfit", 1.0, "", 1e-3, seed, v) for task, seed, v in rows])
    return compared(table, "bitfit_plus", "figure3", tasks), reproduction.reproduction(
        table, reported.scores("bitfit_plus")
    )


def test_a_comparison_ends_with_an_average_where_the_paper_has_one():
    table, reproduced = averaged(("cola", 0, 0.4), ("rte", 0, 0.6), ("mrpc", 0, 0.8))
    assert table.columns[-1] == AVERAGE
    assert table[AVERAGE].iloc[0] == "0.6000"
    bitfit = table[(table["method"] == "BitFit") & table["scores of"].str.startswith("paper")]
    assert bitfit[AVERAGE].tolist() == ["0.7330"]
    assert "Full (of the BitFit paper)" in table["method"].tolist()
    assert reproduced.query("task == 'average'")["ours"].dropna().round(6).unique() == [0.6]


def test_an_average_spreads_over_the_seeds_that_have_every_task():
    first = [("cola", 0, 0.5), ("rte", 0, 0.6), ("mrpc", 0, 0.7)]
    second = [("cola", 1, 0.7), ("rte", 1, 0.8), ("mrpc", 1, 0.9)]
    table, reproduced = averaged(*first, *second, ("rte", 2, 1.0))
    assert table[AVERAGE].iloc[0] == "0.7000 ± 0.1414"
    row = reproduced.query("task == 'average'").dropna(subset=["ours"]).iloc[0]
    assert (row["seeds"], round(row["standard_deviation"], 4)) == (2, 0.1414)


def test_an_average_over_other_tasks_is_not_beside_the_papers():
    table, reproduced = averaged(("sst2", 0, 0.9), ("rte", 0, 0.6), tasks=("sst2", "rte"))
    assert table.iloc[0][AVERAGE] == "–"
    assert table.iloc[0]["average of this run"] == "0.7500"
    assert table.iloc[-1]["average of this run"] == "–"
    assert reproduced.query("task == 'average'")["ours"].isna().all()


def test_a_comparison_leaves_out_what_the_paper_shows_elsewhere():
    rows = [("rte", method, 1.0, "", 1e-3, 0, 0.5) for method in ("full", "b_q", "mine")]
    ours = compared(scored(*rows), "bitfit", "table2")
    assert ours["method"].tolist()[:2] == ["Full", "mine"]
    assert "b_q" not in ours["method"].tolist()


def test_the_best_score_of_a_block_is_marked_and_full_does_not_compete_in_spafit():
    rows = [
        ("rte", m, 1.0, "", 1e-3, 0, v)
        for m, v in (("full", 0.9), ("lora-I", 0.7), ("lora-II", 0.7), ("full-bitfit", 0.6))
    ]
    table = compared(scored(*rows), "spafit", "table2")
    best = comparison.best_scores(table, "spafit")
    assert best["RTE"].tolist()[:4] == [False, True, True, False]
    assert not best["method"].any()


def test_several_seeds_show_their_spread_and_one_seed_shows_none():
    rows = [("rte", "full", 1.0, "", 1e-5, seed, value) for seed, value in ((0, 0.8), (1, 0.9))]
    assert compared(scored(*rows)).iloc[0]["RTE"] == "0.8500 ± 0.0707"


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    rows = [("rte", "bitfit", 1.0, "", 1e-3, seed, v) for seed, v in ((0, 0.7), (1, 0.8))]
    table = reproduction.reproduction(scored(*rows), reported.scores("bitfit"))
    assert len(table) == len(reported.scores("bitfit"))
    ours = table.dropna(subset=["ours"])
    assert set(ours["split"]) == {"validation"} and set(ours["method"]) == {"bitfit"}
    first = ours.iloc[0]
    assert first["ours"] == pytest.approx(0.75) and first["seeds"] == 2
    assert first["difference"] == pytest.approx(0.75 - first["reported"])
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    rows = scored(("rte", "bitfit", 1.0, "", 1e-3, 0, 0.7)).assign(model="roberta-base")
    table = reproduction.reproduction(rows, reported.scores("bitfit"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}


def test_methods_are_paired_by_task():
    rows = [
        (task, method, 1.0, "", 1e-3, 0, value + (0.1 if method == "full" else 0.0))
        for value, task in enumerate(("rte", "cola", "mrpc", "sst2", "qnli", "qqp"))
        for method in ("full", "bitfit")
    ]
    [row] = significance.paired_tests(scored(*rows)).to_dict("records")
    assert row["pairs"] == 6
    assert row["mean_difference"] == pytest.approx(0.1)
    # All six differences have one sign: two of the 2^6 ways.
    assert row["p_value"] == pytest.approx(2 / 64)


def test_repeats_have_a_variance_and_single_runs_none():
    rows = [("rte", "b_m2,b_q", 1.0, "", 1e-3, seed, v) for seed, v in enumerate((0.6, 0.7, 0.8))]
    rows.append(("rte", "bitfit", 1.0, "", 1e-3, 0, 0.7))
    [row] = significance.repeat_variance(scored(*rows)).to_dict("records")
    assert (row["method"], row["seeds"]) == ("b_m2,b_q", 3)
    assert row["variance"] == pytest.approx(0.01)


def test_the_papers_best_learning_rates_are_beside_ours():
    rows = [("rte", "bitfit", 1.0, "", 7e-4, 0, 0.7)]
    table = choices.best_learning_rates(
        scored(*rows), reported.table("bitfit_table6.csv"), [TASKS["rte"]], "bitfit"
    )
    assert table.iloc[0].tolist() == ["RTE", "7e-4", "1e-3", "4e-4"]


def test_changes_are_told_by_the_papers_names_of_parameters():
    table = pd.DataFrame(
        {
            "parameter": [
                "encoder.layer.3.attention.self.key.bias",
                "encoder.layer.3.output.LayerNorm.weight",
                "pooler.dense.bias",
            ],
            "mean_abs_change": [0.0, 0.5, 0.7],
            "size": [8, 8, 8],
        }
    )
    found = changes.changes_by_parameter([table, table]).set_index("parameter")["change"]
    assert found.to_dict() == {"b_k": 0.0, "g_LN2": 0.5}


def test_the_gap_is_train_minus_dev_in_the_tables_metric():
    chosen = scored(("rte", "full", 1.0, "", 1e-5, 0, 0.7))
    trained = pd.DataFrame({"run": ["r"], "accuracy": [0.95], "f1": [0.1]})
    [row] = gap.train_and_dev(chosen, trained).to_dict("records")
    assert row["gap"] == pytest.approx(0.25)


def test_table_4_names_the_metrics_of_the_paper():
    table = layernorm.table4(PAPER_ORDER).set_index("task")["metric"]
    assert table["MNLI"] == "matched accuracy / mismatched accuracy"
    assert (table["CoLA"], table["MRPC"]) == ("Matthews correlation", "F1")
    assert (table["STS-B"], table["QQP"]) == ("Spearman correlation", "F1")


def test_a_table_is_written_in_three_formats(tmp_path):
    table = pd.DataFrame({"a_b": ["50%", None], "c": [1.5, 2.0]})
    outputs = [tmp_path / f"t.{ending}" for ending in ("csv", "md", "tex")]
    writing.write(table, outputs)
    assert pd.read_csv(outputs[0])["a_b"][0] == "50%"
    assert "| 50%" in outputs[1].read_text() and "| –" in outputs[1].read_text()
    assert r"a\_b" in outputs[2].read_text() and r"50\%" in outputs[2].read_text()


def test_stars_and_bars_stay_what_they_are_in_markdown(tmp_path):
    table = pd.DataFrame({"trains": ["**.bias", "a|b"], "score": [1 / 3, None]})
    writing.write(table, [tmp_path / "t.md", tmp_path / "t.csv"])
    text = (tmp_path / "t.md").read_text()
    assert r"\*\*.bias" in text and r"a\|b" in text and "0.33333" in text
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table)


def test_what_differs_from_full_fine_tuning_is_marked():
    """Six columns that all differ are what the test needs; five are not."""
    names = ["scores of", "method", "parameters", "% of full"]
    scores = {f"c{column}": ["0.9000", f"0.8{column}00", "–"] for column in range(6)}
    about = dict(zip(names, (["run"] * 3, ["Full", "BitFit", "Random"], "–", "–"), strict=True))
    table = pd.DataFrame(about | scores)
    assert comparison.differing(table)["method"].tolist() == ["", " †", ""]
    assert not comparison.differing(table.drop(columns="c5")).to_numpy().any()
    assert not comparison.differing(table[table["method"] != "Full"]).to_numpy().any()

"""Tables of choices and of tests between methods, with ours beside a paper's."""

import math

import pandas as pd

from subtune.exhibits import finding_tables, output
from subtune.exhibits.output import EMPTY
from subtune.papers.bitfit import learning_rates_table
from subtune.papers.bitfit_plus import variance_table
from subtune.tasks import TASKS
from tests.helpers.examples import scored
from tests.helpers.exhibits import made, results, titled
from tests.unit.analysis.test_statistics import sizes


def choices_of(chosen):
    return finding_tables.choices_table(results({"rte": "RTE", "cola": "CoLA"}, chosen=chosen))


def test_the_papers_best_learning_rates_are_beside_ours():
    rows = [
        ("rte", "bitfit", 1.0, None, 7e-4, 0, math.nan),
        ("cola", "bitfit", 1.0, None, 1e-3, 0, 0.5),
    ]
    tasks = {"rte": "RTE", "cola": "CoLA"}
    ours = results(tasks, "bitfit", chosen=scored(*rows))
    table = learning_rates_table(ours)
    assert table.iloc[0].tolist() == ["RTE", "diverged", "1e-3", "4e-4"]
    assert table["this run: minilm"].tolist() == ["diverged", "1e-3"]
    assert finding_tables.choices_table(ours)["dev score"].tolist() == ["diverged", 0.5]


def test_a_chosen_learning_rate_at_the_edge_has_a_remark():
    rows = [
        ("rte", "bitfit", 1.0, None, 1e-3, 0, 0.5),
        ("cola", "frozen", 1, None, math.nan, 0, 0.5),
    ]
    table = choices_of(scored(*rows).assign(at_edge=[True, False]))
    assert table["remarks"].fillna("").tolist() == ["at the edge", ""]
    assert output.format_rate(math.nan) == EMPTY


def test_the_choices_have_a_row_per_mask_and_the_plateau_of_a_search():
    rows = [
        ("rte", "layernorm", 1.0, None, 3e-3, 0, 0.5),
        ("rte", "layernorm", 0.2, "individual", 1e-3, 0, 0.4),
    ]
    table = choices_of(scored(*rows).assign(plateau=[None, [0.001, 0.003]]))
    assert table["method"].tolist() == ["LayerNorm", "LayerNorm, top 20%, individual"]
    assert table["learning rate"].tolist() == [3e-3, 1e-3]
    assert table["plateau"].tolist() == [EMPTY, "1e-3, 3e-3"]
    assert "plateau" not in choices_of(scored(*rows))


def test_table_4_names_the_metrics_of_the_paper():
    tasks = titled(*(TASKS[name] for name in ("mnli", "cola", "mrpc", "stsb", "qqp")))
    table = made("layernorm", "table4", {}, tasks=tasks).set_index("task")["metric"]
    assert table["MNLI"] == "matched accuracy / mismatched accuracy"
    assert (table["CoLA"], table["MRPC"]) == ("Matthews correlation", "F1")
    assert (table["STS-B"], table["QQP"]) == ("Spearman correlation", "F1")


def test_f1_of_a_users_two_labels_names_its_label():
    own = TASKS["mrpc"].model_copy(update={"name": "claims", "labels": ("ok", "fraud")})
    table = made("layernorm", "table4", {}, tasks=titled(own))
    assert table["metric"].tolist() == ['F1 of "fraud"']


def test_diverged_runs_are_in_no_test_and_have_no_mean():
    rows = [("rte", "layernorm", 1.0, None, 1e-3, seed, 0.6 + seed / 5) for seed in (0, 1)]
    rows += [("rte", "bitfit", 1.0, None, 1e-3, seed, math.nan) for seed in (0, 1)]
    rows.append(("rte", "frozen", 1.0, None, 1e-3, 0, 0.5))
    chosen = scored(*rows)
    tested = made("layernorm", "kruskal_wallis", {"chosen": chosen})["scores"]
    assert not tested.str.startswith("this run").any()
    spread = variance_table(results({"rte": "RTE"}, chosen=chosen)).set_index("method")
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
        tasks=titled(TASKS["squad"]),
    )
    assert table.iloc[:, 2:].to_numpy().tolist() == [
        ["10", "b_v 75.0%, b_q 25.0%, b_k 0.0%", "b_v 0.7000, b_q 0.5000, b_k 0.4000", "0.0000"],
        ["100", "b_v 75.0%, b_q 25.0%, b_k 0.0%", "b_q 0.9000, b_v 0.8000", "0.1000"],
    ]


def test_a_papers_lines_count_its_claims_and_name_the_main_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    rows = [("Biases do", True, "holds", True), ("All do", True, "does not hold", False)]
    rows += [("Rest does", False, "undecided", False)] * 2
    path = tmp_path / "toys" / "data" / "claims.csv"
    path.parent.mkdir(parents=True)
    columns = ["claim", "is_main", "judged", "is_certain"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    assert finding_tables.format_claim_counts({"Toys (Child, 2026)": [path]}).splitlines() == [
        "Toys (Child, 2026): of 4 claims, 1 hold, 1 do not, 2 are undecided; certain: 1.",
        "  Biases do: holds. All do: does not hold.",
        f"    {path.parents[1]}",
        "Each verdict uses the paper's own criterion. It is certain if the whole 95 % interval in",
        "    claims.md agrees with it.",
    ]

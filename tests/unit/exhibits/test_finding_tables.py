"""Tables of choices and of tests between methods, with ours beside a paper's."""

import math

import pandas as pd

from subtune.exhibits import finding_tables, output
from subtune.exhibits.output import EMPTY
from subtune.tasks import TASKS
from tests.helpers.examples import scored
from tests.helpers.exhibits import made, results


def choices_of(chosen):
    return finding_tables.choices_table(results({"rte": "RTE", "cola": "CoLA"}, chosen=chosen))


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
    tasks = ["mnli", "cola", "mrpc", "stsb", "qqp"]
    table = made("layernorm", "table4", {}, tasks).set_index("task")["metric"]
    assert table["MNLI"] == "matched accuracy / mismatched accuracy"
    assert (table["CoLA"], table["MRPC"]) == ("Matthews correlation", "F1")
    assert (table["STS-B"], table["QQP"]) == ("Spearman correlation", "F1")


def test_f1_of_a_users_two_labels_names_its_label():
    own = TASKS["mrpc"].model_copy(update={"name": "claims", "labels": ("ok", "fraud")})
    table = made("layernorm", "table4", {}, [own])
    assert table["metric"].tolist() == ['F1 of "fraud"']


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

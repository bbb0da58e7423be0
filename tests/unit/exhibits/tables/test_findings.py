"""Tests between methods, ours beside a paper's."""

import math

from subtune.exhibits.tables import findings
from tests.helpers.examples import scored
from tests.helpers.exhibits import made


def test_the_kruskal_wallis_test_gives_the_printed_p_values_to_every_printed_digit():
    chosen = scored(
        ("rte", "bitfit", 1.0, None, 1e-3, 0, 0.5), ("rte", "layernorm", 1.0, None, 1e-3, 0, 0.6)
    )
    table = made("layernorm", "kruskal_wallis", dev=chosen).set_index("scores")
    for name in ("table2 (validation)", "table3 (test)", "table2 + table3"):
        row = table.loc[f"paper's {name}"]
        assert round(row["p_value"], 5) == row["reported"]
    assert table.loc["paper's table2 + table3", "n_bitfit"] == 18


def test_what_diverged_is_in_no_test_and_says_so_where_its_mean_would_stand():
    rows = [("rte", "layernorm", 1.0, None, 1e-3, seed, 0.6 + seed / 5) for seed in (0, 1)]
    rows += [("rte", "bitfit", 1.0, None, 1e-3, seed, math.nan) for seed in (0, 1)]
    rows.append(("rte", "frozen", 1.0, None, 1e-3, 0, 0.5))
    chosen = scored(*rows)
    tested = made("layernorm", "kruskal_wallis", dev=chosen)["scores"]
    assert not tested.str.startswith("this run").any()
    spread = findings.repeat_variance(chosen).set_index("method")
    assert spread["mean"].to_dict() == {"layernorm": 0.7, "bitfit": "diverged"}
    assert spread.loc["layernorm", "variance"] == 0.02

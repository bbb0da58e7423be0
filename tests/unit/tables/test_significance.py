"""Tests between methods, ours beside a paper's."""

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

"""SPAFIT's Table 1: what trains in which group of layers."""

import json

import pytest

from subtune.exhibits.tables.methods import strata
from subtune.models.dimensions import dimensions_of, papers_models
from subtune.papers import printed
from subtune.selections.methods import named
from subtune.selections.patterns import WholeTensors
from tests.helpers.exhibits import made

LORA = "LoRA (rank 64, alpha 128) on W_q, W_k, W_v"
OTHERS = "b_m2, b_m3, b_LN2"
BERT_LARGE = dimensions_of("bert-large-cased").shapes(outputs=3)
FROZEN_THEN_BIASES = ("nothing", "all biases")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("full", ("–", "–", *["all parameters"] * 4)),
        ("full-bitfit-text", ("–", "–", *["all biases"] * 3, "nothing")),
        ("bitfit", ("–", "–", *["all biases"] * 4)),
        ("lora-I", ("–", "–", *[LORA] * 3, "nothing")),
        ("lora-II", ("–", "–", *[f"{LORA}, W_m1"] * 3, "nothing")),
        ("SPAFIT-8-12-I", ("8", "12", *FROZEN_THEN_BIASES, f"{LORA}; {OTHERS}", "nothing")),
        ("SPAFIT-4-14-II", ("4", "14", *FROZEN_THEN_BIASES, f"{LORA}, W_m1; {OTHERS}", "nothing")),
        (
            "full-bitfit",
            ("–", "–", *["b_q, b_v, b_m1, b_LN1, b_m2, b_m3, b_LN2"] * 3, "all parameters"),
        ),
        ("frozen", ("–", "–", *["nothing"] * 4)),
        ("g_LN1,b_q", ("–", "–", *["b_q, g_LN1"] * 3, "nothing")),
    ],
)
def test_each_group_of_layers_says_what_trains_in_it(method, expected):
    assert strata(named(method, {}), BERT_LARGE) == expected


def test_layers_that_fall_into_two_groups_have_one_border():
    late = WholeTensors(parameters=("encoder.layer.20-.**.bias",))
    assert strata(late, BERT_LARGE) == ("19", "–", "nothing", "all biases", "–", "nothing")


def test_what_is_drawn_or_has_more_groups_is_told_once_for_all_layers():
    ends = WholeTensors(parameters=("encoder.layer.1-2.**.bias", "encoder.layer.5.**.bias"))
    for selection in (ends, named("rand_bias", {})):
        assert strata(selection, BERT_LARGE)[2:5] == (selection.in_words(),) * 3


def test_table_1_has_the_papers_columns_and_counts(tmp_path):
    fields = papers_models()["bert-large-cased"]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    methods = printed.table("spafit", "parameter_counts")["method"]
    styled = made(
        "spafit",
        "table1",
        {},
        models={"bert-large-cased": tmp_path},
        selections={method: named(method, {}).canonical() for method in methods},
    )
    table = styled.table
    groups = ["N1", "N2", "group 1", "group 2", "group 3", "outside the layers"]
    ours, papers = "parameters: bert-large-cased", "paper: bert-large-cased"
    assert list(table) == ["method", *groups, ours, papers]
    assert list(table[ours]) == list(table[papers])
    spafit = table[table["method"].str.startswith("SPAFIT")]
    assert ("SPAFIT-" + spafit["N1"] + "-" + spafit["N2"] + "-").tolist() == [
        name.rstrip("I") for name in spafit["method"]
    ]
    assert set(styled.wide) <= set(table)

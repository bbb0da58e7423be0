"""Method names, how they combine, and how many parameters they train."""

import math

import pandas as pd
import pytest

from subtune import papers
from subtune.core.errors import SubtuneError
from subtune.methods import COMBINATIONS, LAYER_PARAMETERS, METHODS, builtin_names, find_selection
from subtune.methods.roles import is_classifier
from subtune.methods.selection import LowRank, Whole, WholeTensors
from subtune.models.dimensions import count_parameters, known_dimensions, papers_models


@pytest.fixture(scope="module")
def bert():
    return known_dimensions("bert-base-cased").shapes(outputs=2)


@pytest.fixture(scope="module")
def models():
    return {name: known_dimensions(name) for name in papers_models()}


def trained(name, shapes, users=None):
    entries = find_selection(name, users or {}).resolve(shapes, seed=0)
    return {name for name in entries if not is_classifier(name)}


def test_a_comma_is_a_union_in_any_order_and_without_is_a_difference(bert):
    both = trained("b_m2,b_q", bert)
    assert both == trained("b_m2", bert) | trained("b_q", bert)
    assert find_selection("b_m2,b_q", {}).id == find_selection("b_q, b_m2", {}).id
    assert trained("bitfit without b_m2,b_q", bert) == trained("bitfit", bert) - both


def test_the_components_of_bitfit_are_all_biases_of_the_layers(bert):
    biases = ",".join(name for name in LAYER_PARAMETERS if name.startswith("b_"))
    outside = {"embeddings.LayerNorm.bias", "pooler.dense.bias"}
    assert trained(biases, bert) == trained("bitfit", bert) - outside


def test_full_bitfit_differs_between_spafits_text_and_count(models):
    names = ["full-bitfit", "full-bitfit-text"]
    bert_large = {"b": models["bert-large-cased"]}
    counts = count_parameters(bert_large, {name: METHODS[name] for name in names}, outputs=2)
    classifier = 2 * 1024 + 2
    embeddings, pooler = (28_996 + 512 + 2 + 2) * 1024, 1024 * 1024 + 1024
    # Seven biases of a layer have 1,024 entries, one has 4,096.
    assert counts.set_index("method")["parameters"].to_dict() == {
        "full-bitfit": 24 * (6 * 1024 + 4096) + embeddings + pooler + classifier,
        "full-bitfit-text": 24 * (7 * 1024 + 4096) + classifier,
    }


def test_spafit_goes_by_strata_of_layers(bert):
    entries = find_selection("SPAFIT-2-5-II", {}).resolve(bert, seed=0)
    layers = {}
    for name, entry in entries.items():
        if not is_classifier(name):
            layers.setdefault(int(name.split(".")[2]), set()).add((name.split(".", 3)[3], entry))
    assert sorted(layers) == list(range(3, 12))
    assert {entry for _, entry in layers[5]} == {Whole()} and len(layers[5]) == 8
    adapted = {name for name, entry in layers[11] if entry == LowRank(64, 2.0)}
    assert adapted == {
        "attention.self.query.weight",
        "attention.self.key.weight",
        "attention.self.value.weight",
        "attention.output.dense.weight",
    }
    assert {name for name, entry in layers[11] if entry == Whole()} == {
        "intermediate.dense.bias",
        "output.dense.bias",
        "output.LayerNorm.bias",
    }


def test_names_of_your_own_combine_with_the_papers(bert):
    users = {"late": WholeTensors(parameters=("encoder.layer.6-.**.bias",))}
    names = trained("late without b_LN2", bert, users)
    assert {int(name.split(".")[2]) for name in names} == set(range(6, 12))
    assert not any("output.LayerNorm" in n and "attention" not in n for n in names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b_m4", "found 'b_m4', expected one of .*did you mean 'b_m"),
        ("b_m2,", "found ''"),
        ("rand_bias,b_q", "combine only methods that train whole parameters"),
        ("frozen,b_q", "and have no `without`"),
    ],
)
def test_a_name_that_means_nothing_is_an_error(name, message):
    with pytest.raises(SubtuneError, match=message):
        find_selection(name, {})


PRINTED = pd.concat(
    papers.find_paper(paper).read_printed("parameter_counts").assign(source=paper)
    for paper in papers.paper_names()
)


@pytest.mark.parametrize(
    "row", [*PRINTED.itertuples()], ids=lambda row: f"{row.source}-{row.method}"
)
def test_counts_are_those_that_the_papers_print(row, models):
    model = {row.model: models[row.model]}
    selection = {row.method: find_selection(row.method, {}, row.model)}
    [counts] = count_parameters(model, selection, 3 if row.source == "spafit" else 2).iloc
    if row.printed.endswith("%"):
        digits = len(row.printed.rstrip("%").partition(".")[2])
        # The papers do not say which way they round, and do not always go the same way.
        scaled = counts["share"] * 100 * 10**digits
        printed = round(float(row.printed.rstrip("%")) * 10**digits)
        assert printed in (math.floor(scaled), math.ceil(scaled))
    elif row.printed.endswith("M"):
        assert f"{counts['parameters'] / 1e6:.2f}M" == row.printed
    else:
        assert f"{counts['parameters']:,}" == row.printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bert-base-cased",
        *(pytest.param(n, marks=pytest.mark.nightly) for n in ("bert-large-cased", "roberta-base")),
    ],
)
def test_every_method_fits_every_model_of_the_papers(name, models):
    counts = count_parameters({name: models[name]}, METHODS, outputs=2)
    assert counts["parameters"].notna().all()
    by_method = counts.set_index("method")["parameters"].astype(float)
    assert by_method["rand_uniform"] == by_method["bitfit"]
    assert by_method["rand_row_col"] == pytest.approx(by_method["bitfit"], rel=0.01)


@pytest.mark.parametrize(
    ("model", "drawn"),
    [("bert-base-cased", 100_000), ("bert-large-cased", 280_000), ("roberta-base", 105_000)],
)
def test_rand_uniform_draws_as_many_as_the_published_code(model, drawn):
    assert find_selection("rand_uniform", {}, model).random.count == drawn


@pytest.mark.parametrize("name", [*METHODS, *COMBINATIONS, "SPAFIT-1-3-I", "SPAFIT-0-23-II"])
def test_a_papers_selection_is_known_by_its_name(name):
    assert builtin_names()[find_selection(name, {})] == {"beft": "b_v"}.get(name, name)
    assert WholeTensors(parameters=("pooler.**",)) not in builtin_names()

"""Tables of `subtune params`: numbers of trained parameters, and tensors of a local model."""

import json
import re

from subtune import cli
from subtune.methods.names import find_selection
from subtune.methods.selection import Whole, WholeTensors, count_trained
from subtune.models.dimensions import read_dimensions, trained_tensors
from subtune.models.families import SEQUENCE_CLASSIFICATION


def params(capsys, *arguments):
    status = cli.main(["params", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def cells(printed, first):
    """The cells of the row that begins with ``first``."""
    [row] = [line for line in printed.splitlines() if line.startswith(f"| {first} ")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def tensors(method, directory):
    shapes = read_dimensions(directory).shapes(2)
    entries = find_selection(method, {}).resolve(shapes, seed=0)
    names = read_dimensions(directory).exported_names(SEQUENCE_CLASSIFICATION)
    table = trained_tensors(entries, shapes, names)
    assert table["trains"].sum() == count_trained(entries, shapes)
    return table


def test_tensors_have_the_names_of_transformers_beside_them(directory_of, tiny_bert, capsys):
    _, out, _ = params(capsys, "layernorm", "--model", directory_of("modernbert"))
    found = cells(out, "encoder.layer.*.output.LayerNorm.weight × 2")
    assert found[1:] == ["model.layers.*.mlp_norm.weight", "32", "64"]
    # The classifier is called alike, and trains.
    assert cells(out, "classifier.weight")[1:] == ["", "2 × 32", "64"]
    _, out, _ = params(capsys, "b_q", "--model", tiny_bert)
    found = cells(out, "encoder.layer.*.attention.self.query.bias × 2")
    assert found[1:] == ["bert.encoder.layer.*.attention.self.query.bias", "32", "64"]


def test_a_row_is_a_pattern_of_the_layers_that_train(minilm):
    table = tensors("SPAFIT-1-3-I", minilm).set_index("tensor")
    assert table.loc["encoder.layer.2-3.attention.self.query.bias", "times"] == 2
    adapted = table.loc["encoder.layer.4-5.attention.self.query.weight"]
    assert (adapted["times"], adapted["how"], adapted["trains"]) == (2, "rank 64", 2 * 64 * 768)
    shapes = read_dimensions(minilm).shapes(2)
    # A pattern of the table means in a selection what it stands for.
    inside = table[~table.index.str.startswith("classifier")]
    named_by = [WholeTensors(parameters=(pattern,)).names(shapes) for pattern in inside.index]
    assert [*map(len, named_by)] == [*inside["times"]]


def test_layers_with_a_gap_between_them_are_rows_of_their_own():
    names = [f"encoder.layer.{layer}.output.dense.bias" for layer in range(6)]
    shapes = dict.fromkeys(names, (4,))
    entries = {name: Whole() for name in names if ".2." not in name}
    # Some models number the parts of a layer, too.
    table = trained_tensors(entries, shapes, {name: f"groups.0.{name}" for name in names})
    assert [*table["tensor"]] == [
        "encoder.layer.0-1.output.dense.bias",
        "encoder.layer.3-5.output.dense.bias",
    ]
    assert [*table["own"]] == [f"groups.0.{tensor}" for tensor in table["tensor"]]


def test_entries_of_a_tensor_are_counted(directory_of):
    table = tensors("rand_bias", directory_of("electra"))
    drawn = table[table["how"] == "in part"]
    assert len(drawn) and (drawn["trains"] < drawn["times"] * drawn["shape"].str[0]).all()


def test_what_a_model_lacks_is_said_below_the_table_and_has_no_number(directory_of, capsys):
    in_model = ["--model", directory_of("modernbert")]
    status, out, _ = params(capsys, "layernorm", "bitfit", *in_model)
    assert status == 0
    [line] = re.findall(r"^– (.*)$", out, re.MULTILINE)
    message = "selection: pattern '**.bias' matches no parameter of the model"
    assert line.startswith(f"bitfit: {message}")
    assert "encoder.layer.*.output.LayerNorm.weight" in line
    status, out, err = params(capsys, "bitfit", *in_model)
    assert (status, out) == (1, "") and err.startswith(message) and err.count("\n") == 1
    _, out, _ = params(capsys, "bitfit", "layernorm", *in_model, "--json")
    lacking, counted = json.loads(out)
    assert list(counted) == ["model", "method", "parameters", "classifier", "share"]
    assert (lacking["parameters"], counted["parameters"]) == (None, 130)

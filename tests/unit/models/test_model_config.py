"""Tables of `subtune params`: numbers of trained parameters."""

import json
import re

from subtune import cli


def params(capsys, *arguments):
    status = cli.main(["params", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


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

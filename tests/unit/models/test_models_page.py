"""The page on models says what the code does: its families, names and examples."""

import json
import re

import pytest
import yaml
from transformers import AutoConfig

from subtune.core.errors import SubtuneError
from subtune.methods import SELECTION, find_selection
from subtune.methods.roles import IN_LAYER, NAMINGS, split_name
from subtune.models.dimensions import read_dimensions
from subtune.models.families import FAMILIES
from tests.helpers.families import DECODER, SHAPE, USUAL
from tests.helpers.project import ROOT

PAGE = (ROOT / "docs" / "models.md").read_text()
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def table(first):
    """The rows of the table whose first column has this name, without it."""
    [lines] = re.findall(rf"^\| {first} \|.*\n(?:\|.*\n)+", PAGE, re.M)
    header, _, *rows = ([c.strip() for c in line.split("|")[1:-1]] for line in lines.splitlines())
    return header, rows


def words_in_code(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_every_family():
    named_there = [name for types, *_ in table("`model_type`")[1] for name in words_in_code(types)]
    described = [name for name, naming in NAMINGS.items() if naming.layers]
    assert sorted(named_there) == sorted([*FAMILIES, *described])


def test_a_family_that_no_one_has_described_has_transformers_names(tmp_path):
    fields = {"n_layer": 2, "n_head": 2}
    AutoConfig.for_model("bloom", **(SHAPE | USUAL | fields)).save_pretrained(tmp_path)
    shapes = read_dimensions(tmp_path).shapes(2)
    [block] = [block for block in YAML if block.startswith("selections:")]
    for selection in yaml.safe_load(block)["selections"].values():
        SELECTION.validate_python(selection).resolve(shapes, seed=0)
    for method in ("full", "frozen", "bitfit"):
        find_selection(method, {}).resolve(shapes, seed=0)
    with pytest.raises(SubtuneError, match="whose vectors are"):
        find_selection("layernorm", {}).resolve(shapes, seed=0)


@pytest.mark.parametrize(
    ("family", "model", "layers"), [("modernbert", "modernbert", 22), ("qwen2", "qwen", 24)]
)
def test_the_example_fits_models_as_deep_as_the_published_ones(family, model, layers, tmp_path):
    fields = SHAPE | USUAL | DECODER | {"num_hidden_layers": layers}
    AutoConfig.for_model(family, **fields).save_pretrained(tmp_path)
    shapes = read_dimensions(tmp_path).shapes(2)
    example = yaml.safe_load((ROOT / "examples" / "any-model.yaml").read_text())
    own = {name: SELECTION.validate_python(s) for name, s in example["selections"].items()}
    experiments = [e for e in example["experiments"].values() if model in e["models"]]
    for method in {method for experiment in experiments for method in experiment["methods"]}:
        find_selection(method, own).resolve(shapes, seed=0)


def test_the_roles_on_the_page_are_those_of_a_model(tmp_path):
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    AutoConfig.for_model("eurobert", **(SHAPE | USUAL | DECODER)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | json.loads(block)))
    components = {split_name(name).component for name in read_dimensions(tmp_path).shapes(2)}
    roles = json.loads(block)["subtune_roles"]
    assert {*roles["inside"].values(), *roles["outside"].values()} <= components
    assert components <= {*IN_LAYER, *roles["outside"].values(), "classifier", "classifier.dense"}

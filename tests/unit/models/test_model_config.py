"""What a configuration says of a model, and the table of what methods train in it."""

import json
import re

import numpy as np
import pytest
import torch
from transformers import AutoModel

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.methods.roles import is_classifier
from subtune.models.dimensions import read_dimensions
from subtune.models.encoder import load_encoder, with_new_classifier
from subtune.models.families import MEAN_CLASSIFICATION, SEQUENCE_CLASSIFICATION
from subtune.models.forward import compute_logits
from subtune.models.model_config import (
    UNLIMITED_POSITIONS,
    choose_head,
    find_pooling,
    list_parts_left_out,
    longest_text,
    read_model_config,
)
from subtune.models.packing import pack_batch
from subtune.tasks import TASKS
from tests.helpers import examples, families
from tests.helpers.messages import refused


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


def test_the_methods_of_a_configuration_are_counted_in_its_own_models(
    directory_of, capsys, tmp_path
):
    own = {"small": {"path": str(directory_of("modernbert"))}, "big": {"hub": "acme/big"}}
    experiment = {"models": ["small"], "tasks": ["sst2"], "methods": {"norms": [1e-3]}}
    experiment |= {"epochs": 1, "batch_size": 8}
    selections = {"norms": {"parameters": ["**.LayerNorm.weight"]}}
    config = {"models": own, "selections": selections, "experiments": {"mine": experiment}}
    (tmp_path / "own.yaml").write_text(json.dumps(config))
    _, out, err = params(capsys, "norms", "--config", tmp_path / "own.yaml", "--json")
    assert err == "" and {row["model"] for row in json.loads(out)} == {"small"}
    status, _, err = params(capsys, "norms")
    assert status == 1 and "--config FILE adds your own methods): found 'norms', expected" in err


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "modernbert", "max_position_embeddings": 8192}, 8192),
        ({"model_type": "bloom"}, UNLIMITED_POSITIONS),
        *(
            ({"model_type": name, "max_position_embeddings": 514, "pad_token_id": 1}, 512)
            for name in ("mpnet", "camembert", "longformer", "xlm-roberta-xl", "esm")
        ),
    ],
)
def test_the_longest_text_is_told_by_the_configuration(fields, longest):
    assert longest_text(fields) == longest


MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]


@pytest.mark.parametrize(
    ("modules", "pooling", "found"),
    [
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        (MODULES, {"pooling_mode": "mean"}, "mean"),
        (MODULES, {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "first"),
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
        (MODULES, {"pooling_mode": "cls"}, "first"),
        (MODULES, {"pooling_mode": "lasttoken"}, None),
        (MODULES[:1], {}, None),
    ],
)
def test_files_of_sentence_transformers_say_the_pooling(modules, pooling, found):
    stored = {"modules.json": json.dumps(modules), "1_Pooling/config.json": json.dumps(pooling)}
    assert find_pooling(stored.get) == found


DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"}
LAYER_NORM = {"type": "sentence_transformers.models.LayerNorm", "path": "2_LayerNorm"}
MEAN, CLS = {"pooling_mode_mean_tokens": True}, {"pooling_mode": "cls"}
MAXIMUM = {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}


@pytest.mark.parametrize(
    ("modules", "pooling", "prompt", "is_decoder", "expected"),
    [
        ([*MODULES, NORMALIZE], MEAN, None, False, []),
        (MODULES, CLS, None, False, []),
        (MODULES, MEAN | {"include_prompt": False}, None, False, []),
        ([*MODULES, DENSE, DENSE, NORMALIZE], MEAN, None, False, ["the module Dense"] * 2),
        ([*MODULES, LAYER_NORM], CLS, None, False, ["the module LayerNorm"]),
        (MODULES, MAXIMUM, None, False, ["max pooling"]),
        (MODULES, {"pooling_mode": "weightedmean"}, None, False, ["weightedmean pooling"]),
        (MODULES, MAXIMUM | MEAN, None, False, ["mean and max pooling"]),
        (MODULES, {"pooling_mode": ["mean", "max"]}, None, False, ["mean and max pooling"]),
        (MODULES, {"pooling_mode_lasttoken": True}, None, False, ["lasttoken pooling"]),
        (MODULES, {"pooling_mode_lasttoken": True}, None, True, []),
        (MODULES, CLS, None, True, ["cls pooling"]),
        (MODULES, MEAN, "query", False, ["the prompt 'query: '"]),
        ([], {}, "query", False, []),
    ],
)
def test_parts_of_sentence_transformers_that_are_left_out_are_named(
    modules, pooling, prompt, is_decoder, expected, tmp_path
):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": prompt}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert list_parts_left_out(tmp_path, is_decoder) == expected


def test_the_default_model_is_used_whole(minilm):
    assert list_parts_left_out(minilm, is_decoder=False) == []


@pytest.mark.parametrize("modules", ["{", '[{"path": "1_Pooling"}]'])
def test_a_list_of_modules_that_is_none_is_one_line(modules):
    with pytest.raises(SubtuneError, match=r"^cannot read modules\.json, or the config\.json "):
        find_pooling({"modules.json": modules}.get)


@pytest.mark.parametrize(
    ("pooling", "task", "expected"),
    [
        ("mean", "sst2", MEAN_CLASSIFICATION),
        ("first", "sst2", SEQUENCE_CLASSIFICATION),
        (None, "sst2", SEQUENCE_CLASSIFICATION),
        ("mean", "squad", TASKS["squad"].of_kind.head),
        ("mean", "ud_ewt", TASKS["ud_ewt"].of_kind.head),
    ],
)
def test_only_a_head_of_one_text_reads_the_mean(pooling, task, expected):
    assert choose_head(pooling, TASKS[task].of_kind.head, "bert") == expected


ROWS = [[2, 5, 6, 7, 8, 3], [2, 6, 6, 3], [2, 3], [2, 9, 8, 7, 5, 3]]


def logits_of_rows(model, reads=None):
    rows = examples.packable(ROWS, [0, 1, 0, 1], reads=reads)
    with torch.inference_mode():
        return compute_logits(model, pack_batch(rows, np.arange(4), model))[0]


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "distilbert", "deberta"])
def test_the_mean_is_a_linear_layer_on_the_mean_of_the_last_hidden_states(family, directory_of):
    model = with_new_classifier(
        load_encoder(directory_of(family), SEQUENCE_CLASSIFICATION, 3, "mean"), 0
    )
    assert model.head == MEAN_CLASSIFICATION
    weight, bias = (value for name, value in model.parameters.items() if is_classifier(name))
    theirs = AutoModel.from_pretrained(directory_of(family), dtype=torch.float32).eval()
    with torch.inference_mode():
        # A text alone has no padding.
        means = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ROWS]
    expected = torch.stack(means) @ weight.T + bias
    torch.testing.assert_close(logits_of_rows(model, "all"), expected, rtol=0, atol=1e-6)


def test_where_transformers_class_can_pool_it_does(directory_of):
    computed = {}
    for pooling in ("first", "mean", None):
        model = load_encoder(directory_of("modernbert"), SEQUENCE_CLASSIFICATION, 2, pooling)
        assert model.head == SEQUENCE_CLASSIFICATION
        assert model.config.classifier_pooling == {"mean": "mean"}.get(pooling, "cls")
        computed[pooling] = logits_of_rows(with_new_classifier(model, 0))
    assert torch.equal(computed["first"], computed[None])
    assert not torch.allclose(computed["first"], computed["mean"])


BASE = {"base_model_name_or_path": "someone/base"}
OLD_MODULES = [{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"adapter_config.json": BASE},
            "PEFT adapter, not a whole model; use its base model (someone/base), or",
        ),
        (
            {"refs/main": "abc", "snapshots/abc/config.json": {"model_type": "bert"}},
            "; use a model folder inside it: HERE/snapshots/abc",
        ),
        (
            {"modules.json": OLD_MODULES, "0_Transformer/config.json": {"model_type": "bert"}},
            "; use a model folder inside it: HERE/0_Transformer",
        ),
        (
            {f"checkpoint-{n}/config.json": {"model_type": "bert"} for n in (10, 20)},
            "in 'HERE'; use a model folder inside it: HERE/checkpoint-20 (and 1 more)",
        ),
        ({"runs/1234/spec.json": {}}, "; these are subtune's results; `subtune export RUN"),
        ({"model.gguf": ""}, "; use a folder written by transformers' `save_pretrained`"),
    ],
    ids=["adapter", "cache", "old", "checkpoints", "results", "other"],
)
def test_a_folder_without_a_model_is_named_for_what_it_is(files, found, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    with refused("", found.replace("HERE", str(tmp_path))):
        read_model_config(tmp_path)


ROLES = {
    "layers": "layers.",
    "inside": {
        "attn_norm": "attention.output.LayerNorm",
        "attn.q_proj": "attention.self.query",
        "attn.k_proj": "attention.self.key",
        "attn.v_proj": "attention.self.value",
        "mlp_norm": "output.LayerNorm",
    },
    "outside": {"final_norm": "encoder.LayerNorm"},
}


def write_roles(directory, roles):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"subtune_roles": roles}))


def test_a_model_of_another_family_names_the_roles_of_its_modules(tmp_path):
    """Planning and training give its parameters the same names."""
    family = "modernbert-decoder"
    without = read_dimensions(families.write(family, tmp_path / "without"))
    shapes = without.shapes(2, SEQUENCE_CLASSIFICATION)
    with pytest.raises(SubtuneError, match="matches no parameter"):
        METHODS["layernorm"].resolve(shapes, 0)
    directory = families.write(family, tmp_path / "with")
    write_roles(directory, ROLES)
    named = read_dimensions(directory).shapes(2, SEQUENCE_CLASSIFICATION)
    assert load_encoder(directory, SEQUENCE_CLASSIFICATION, 2).shapes == named
    trained = [name for name in METHODS["layernorm"].resolve(named, 0) if not is_classifier(name)]
    assert trained == [f"encoder.layer.{layer}.output.LayerNorm.weight" for layer in (0, 1)]
    updated = [name for name in METHODS["lora-I"].resolve(named, 0) if not is_classifier(name)]
    assert len(updated) == 6 and "encoder.LayerNorm.weight" in named


@pytest.mark.parametrize(
    ("family", "roles", "message"),
    [
        ("modernbert", ROLES, "found roles, but subtune knows those of modernbert; remove the key"),
        ("fnet", ["a"], r"found \['a'\], expected an object with the keys layers, inside"),
        ("fnet", {"layer": "h."}, "found 'layer', expected one of layers, .*did you mean 'layers'"),
        ("fnet", {"layers": 3}, "layers: found 3, expected str"),
        ("fnet", {"layers": "layers"}, "layers: found 'layers', expected a dot at the end"),
        ("bert", ROLES, "found roles, but subtune knows those of bert; remove the key"),
        ("fnet", {"outside": {"norm": "classifier.norm"}}, "outside: found 'classifier.norm', exp"),
        (
            "fnet",
            {"inside": {"q": "attention.self.querry"}},
            "inside: found 'attention.self.querry', .*did you mean 'attention.self.query'",
        ),
    ],
)
def test_roles_that_cannot_be_used_are_one_line(tmp_path, family, roles, message):
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"model_type": family}))
    write_roles(directory, roles)
    named = re.escape(str(directory / "config.json")) + ": subtune_roles: "
    with pytest.raises(SubtuneError, match=f"^{named}{message}"):
        read_model_config(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": "model.layers."}, "no module has the role attention.output.LayerNorm; corr"),
        ({"inside": {"attn_nrm": "output.LayerNorm"}}, "the model has no module 'attn_nrm'"),
        (
            {"inside": dict.fromkeys(["attn.q_proj", "attn.k_proj"], "attention.self.query")},
            "attn.q_proj.weight has the same role as another parameter",
        ),
    ],
)
def test_roles_that_the_model_does_not_have_are_one_line(tmp_path, change, message):
    directory = families.write("modernbert-decoder", tmp_path / "model")
    write_roles(directory, ROLES | change)
    with pytest.raises(SubtuneError, match=f"subtune_roles: .*{message}"):
        read_dimensions(directory).shapes(2, SEQUENCE_CLASSIFICATION)

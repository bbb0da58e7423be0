"""Exports: in a new process, plain transformers and PEFT give the recorded predictions."""

import json
import shutil
import subprocess
import sys
from itertools import product

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
import transformers
from peft import AutoPeftModelForSequenceClassification
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.methods import METHODS, SELECTION
from subtune.methods.added import Lora, LoraSettings
from subtune.models.encoder import load_encoder
from subtune.runs import records
from subtune.share.export import export_model
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training import recorded_runs
from subtune.training.evaluation import compute_split_logits
from tests.helpers import examples, plain_transformers, reference
from tests.helpers.families import FIELDS
from tests.helpers.peft_types import SORTS, TYPES, selection_of
from tests.helpers.records import logits_on_record, recorded

# These families are tested every time, all families every week.
OFTEN = ("albert", "gpt2", "modernbert", "qwen2", "xlnet")


# SPAFIT's shape on two layers: biases in the first, LoRA and biases outside attention in the last.
BIASES_THEN_LORA = Lora(
    lora=LoraSettings(targets=("encoder.layer.1.attention.self.*.weight",), rank=4, alpha=8),
    parameters=(
        "encoder.layer.0.**.bias",
        "encoder.layer.1.intermediate.dense.bias",
        "encoder.layer.1.output.*.bias",
    ),
)


def arguments_of(path, tokens, base="", task="sst2"):
    """Return the arguments of ``plain_transformers.predict`` as values for JSON."""
    rows = [
        {key: row[key] for key in ("input_ids", "token_type_ids") if key in row}
        for row in tokens["validation"]
    ]
    auto_class = reference.CLASSES[TASKS[task].of_kind.head].__name__
    return str(path), str(base), rows, TASKS[task].outputs, auto_class


def theirs(*of):
    """Transformers' logits of each example: ``[outputs]``, or logits of all its tokens."""
    return list(map(np.array, plain_transformers.predict(*arguments_of(*of))))


def exported(results, spec, base=""):
    """Write a run's model, or its adapter if there is a base, and return the folder."""
    target = results / f"out-{spec.id}"
    export_model(Layout(str(results)), spec.id, target, adapter=bool(base))
    return target


def assert_predicts(results, spec, tokens, base="", task="sst2", atol=1e-5):
    """Check that an export (of an adapter if there is a base) gives the recorded predictions."""
    predicted = np.array(theirs(exported(results, spec, base), tokens, base, task))
    assert predicted == pytest.approx(logits_on_record(results, spec), abs=atol)


@pytest.mark.nightly
def test_exports_predict_as_the_records_say_in_a_fresh_process(tmp_path, tiny_bert):
    calls, on_record = [], []
    for selection, base in ((METHODS["layernorm"], ""), (selection_of("IA3", "bert"), tiny_bert)):
        spec, tokens = recorded(tmp_path, tiny_bert, selection)
        calls.append(arguments_of(exported(tmp_path, spec), tokens, base))
        on_record.append(logits_on_record(tmp_path, spec))
    command = [sys.executable, plain_transformers.__file__, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert np.array(json.loads(done.stdout)) == pytest.approx(np.array(on_record), abs=1e-5)


WHOLE = [METHODS[name] for name in ("layernorm", "rand_uniform", "lora-II")]
ADAPTERS = [METHODS[name] for name in ("lora-I", "layernorm", "g_LN1", "ia3")] + [BIASES_THEN_LORA]
EXPORTS = [
    *product(["bert", "roberta"], WHOLE, [False]),
    *product(["bert", "roberta"], ADAPTERS, [True]),
    *product(["gpt2", "modernbert", "qwen2"], [METHODS["lora-II"]], [True]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "selection", "adapter"), EXPORTS)
def test_an_export_predicts_as_the_record_says(family, selection, adapter, tmp_path, directory_of):
    base = directory_of(family)
    spec, tokens = recorded(tmp_path, base, selection)
    assert_predicts(tmp_path, spec, tokens, base if adapter else "")


# Fields that an earlier use of a model has left in its configuration.
SWITCHED = {
    "gradient_checkpointing": True,
    "id2label": {"0": "cold", "1": "warm", "2": "hot"},
    "label2id": {"cold": 0, "warm": 1, "hot": 2},
    "output_attentions": True,
    "output_hidden_states": True,
    "return_dict": False,
    "torchscript": True,
}
SINGLE = {"problem_type": "single_label_classification"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "task", "fields"),
    [("bert", "sst2", SWITCHED), ("gpt2", "sst2", SWITCHED), ("modernbert", "stsb", SINGLE)],
)
@pytest.mark.fault(
    "models", "fields of `config.json` from an earlier use, such as `problem_type`", "ignored"
)
def test_switches_of_a_configuration_change_nothing(family, task, fields, tmp_path, directory_of):
    results = {}
    for name, added in (("usual", {}), ("switched", fields)):
        base = shutil.copytree(directory_of(family), tmp_path / name / "base")
        config = json.loads((base / "config.json").read_text())
        (base / "config.json").write_text(json.dumps(config | added))
        spec, tokens = recorded(tmp_path / name, base, METHODS["full"], task)
        results[name] = logits_on_record(tmp_path / name, spec)
        assert_predicts(tmp_path / name, spec, tokens, task=task)
    assert np.array_equal(results["usual"], results["switched"])
    made = json.loads((tmp_path / "switched" / f"out-{spec.id}" / "config.json").read_text())
    assert {*made["id2label"].values()} == {*(TASKS[task].labels or ["LABEL_0"])}


@pytest.mark.slow
@pytest.mark.parametrize(
    "of_type",
    [t if t in SORTS else pytest.param(t, marks=pytest.mark.nightly) for t in TYPES],
)
def test_a_run_of_every_type_of_peft_predicts_as_the_record_says(of_type, tmp_path, tiny_bert):
    spec, tokens = recorded(tmp_path, tiny_bert, selection_of(of_type, "bert"), learning_rate=1e-3)
    assert_predicts(tmp_path, spec, tokens, tiny_bert)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "task", "method"),
    [
        ("roberta", "sst2", "lora-I"),
        ("mpnet", "sst2", "lora-I"),
        ("bert", "stsb", "full"),
    ],
)
def test_sentence_transformers_predicts_a_mean_over_tokens(
    family, task, method, tmp_path, directory_of
):
    from sentence_transformers import SentenceTransformer

    labels = "standard" if task == "stsb" else "raw"
    settings = {"learning_rate": 1e-3, "pooling": "mean", "labels": labels}
    spec, _ = recorded(tmp_path, directory_of(family), METHODS[method], task, **settings)
    export_model(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    rows = examples.rows_of(TASKS[task])["validation"].to_dict()
    texts = [list(row) if len(row) > 1 else row[0] for row in TASKS[task].of_kind.texts(rows)]
    predicted = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert predicted == pytest.approx(logits_on_record(tmp_path, spec), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [False, True])
def test_an_export_predicts_standardised_labels_in_their_unit(adapter, tmp_path, tiny_bert):
    settings = {"task": "stsb", "learning_rate": 1e-3, "labels": "standard"}
    spec, tokens = recorded(tmp_path, tiny_bert, METHODS["lora-I"], **settings)
    assert_predicts(tmp_path, spec, tokens, tiny_bert if adapter else "", "stsb")
    mean = logits_on_record(tmp_path, spec).mean()
    assert abs(mean - np.mean(tokens["train"]["label"])) < 1


@pytest.mark.slow
@pytest.mark.parametrize(("adapter", "method"), [(False, "bitfit"), (True, "lora-I")])
def test_an_export_of_a_model_in_half_precision_loses_nothing(adapter, method, copied, tmp_path):
    """Many models on the hub are stored so."""
    half_bert = copied(weights=lambda of: {name: of[name].half() for name in of}, dtype="float16")
    spec, tokens = recorded(tmp_path, half_bert, METHODS[method], learning_rate=1e-6)
    assert_predicts(tmp_path, spec, tokens, half_bert if adapter else "", atol=1e-6)
    [weights] = tmp_path.glob("out-*/*.safetensors")
    stored = safetensors.numpy.load_file(weights)
    assert {values.dtype for values in stored.values()} == {np.dtype("float32")}


@pytest.mark.slow
def test_a_pipeline_reads_an_export_of_any_number_of_labels(tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["bitfit"], "toxic")
    export_model(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    texts = examples.rows_of(examples.TOXIC)["validation"]["text_a"][:]
    classify = transformers.pipeline("text-classification", str(tmp_path / "out"), top_k=None)
    shares = [{of["label"]: of["score"] for of in said} for said in classify(texts)]
    found = [[of_text[label] for label in examples.TOXIC.labels] for of_text in shares]
    expected = 1 / (1 + np.exp(-logits_on_record(tmp_path, spec)))
    assert np.array(found) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "family", "adapter"),
    [
        ("ud_ewt", "bert", False),
        ("ud_ewt", "roberta", True),
        ("squad", "roberta", False),
        ("squad", "bert", True),
    ],
)
def test_an_export_of_words_and_spans_predicts_as_the_record_says(
    task, family, adapter, tmp_path, directory_of
):
    directory = directory_of(family)
    selection = BIASES_THEN_LORA if adapter else METHODS["bitfit"]
    spec, tokens = recorded(tmp_path, directory, selection, task)
    model = load_encoder(directory, TASKS[task].of_kind.head, TASKS[task].outputs)
    rows = Examples(tokens["validation"], model.tokens_read)
    delta = records.read_delta(tmp_path / "runs", spec.id)
    [ours] = compute_split_logits(recorded_runs.with_delta(spec, model, delta), rows, "fp32")
    base = directory if adapter else ""
    out = exported(tmp_path, spec, base)
    if not adapter:
        config = json.loads((out / "config.json").read_text())
        assert config.get("problem_type") is None
        if TASKS[task].labels:
            assert tuple(config["id2label"].values()) == TASKS[task].labels
    predicted = theirs(out, tokens, base, task)
    read = [of[reads] for of, reads in zip(predicted, rows.reads, strict=True)]
    assert np.concatenate(read) == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("family", ["bart", "ibert"])
def test_an_export_has_buffers_and_tensors_of_several_names(family, directory_of, tmp_path):
    """BART has three names for one table of word embeddings; I-BERT has ranges of numbers as
    buffers."""
    spec, tokens = recorded(tmp_path, directory_of(family), METHODS["bitfit"])
    assert_predicts(tmp_path, spec, tokens)
    kind = AutoModelForSequenceClassification
    path = tmp_path / f"out-{spec.id}"
    assert not any(kind.from_pretrained(path, output_loading_info=True)[1].values())


ADAPTER = SELECTION.validate_python({"adapter": {"type": "houlsby", "size": 4}})


@pytest.mark.parametrize(
    ("adapter", "selection", "message"),
    [
        (True, METHODS["bitfit"], "other than PEFT modules, LoRA or norms"),
        (False, ADAPTER, "adapters, which neither transformers nor PEFT supports"),
    ],
)
def test_a_selection_that_has_no_export_is_refused(
    adapter, selection, message, tmp_path, tiny_bert
):
    spec, _ = recorded(tmp_path, tiny_bert, selection)
    with pytest.raises(SubtuneError, match=message):
        export_model(Layout(str(tmp_path)), spec.id, tmp_path / "out", adapter=adapter)


def test_adapters_find_a_base_here_and_one_on_the_hub_from_another_folder(
    tmp_path, tiny_roberta, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    spec, tokens = recorded(tmp_path / "results", tiny_roberta, METHODS["lora-I"])
    assert cli.main(["export", spec.id, "--to", "local", "--adapter"]) == 0
    of_hub = spec.model.replace(source="hub", repository="acme/tiny", version="a" * 40)
    for place in ("results/models", "cache/models--acme--tiny/snapshots"):
        name = of_hub.id if "results" in place else of_hub.version
        shutil.copytree(tiny_roberta, tmp_path / place / name)
    of_hub_spec = spec.replace(model=of_hub)
    shutil.copytree(f"results/runs/{spec.id}", f"results/runs/{of_hub_spec.id}")
    monkeypatch.setattr(records, "read_spec", lambda *_: of_hub_spec)
    export_model(Layout("results"), of_hub_spec.id, tmp_path / "of-hub", adapter=True)
    bases = {"local": str(tmp_path / "results" / "models" / spec.model.id), "of-hub": "acme/tiny"}
    for adapter, base in bases.items():
        named = json.loads((tmp_path / adapter / "adapter_config.json").read_text())
        assert named["base_model_name_or_path"] == base
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    logits = logits_on_record(tmp_path / "results", spec)
    for adapter in ("../local", "../of-hub"):
        model = AutoPeftModelForSequenceClassification.from_pretrained(adapter).eval()
        with torch.inference_mode():
            rows = map(torch.tensor, tokens["validation"]["input_ids"])
            predicted = [model(row[None]).logits[0].tolist() for row in rows]
        assert np.array(predicted) == pytest.approx(logits, abs=1e-5)


@pytest.mark.fault("files", "the target of an export or prediction exists", "never overwritten")
def test_an_export_never_overwrites(tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["layernorm"])
    (tmp_path / "out").mkdir()
    with pytest.raises(SubtuneError, match="already exists"):
        export_model(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_command_first_refuses_a_target_that_is_there(tmp_path, capsys):
    assert cli.main(["export", "0", "--to", str(tmp_path), "--results", "no-results"]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}: already exists")


def test_the_command_says_where_the_model_is_and_nothing_else(tmp_path, tiny_bert, capfd):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["layernorm"])
    capfd.readouterr()
    target = str(tmp_path / "out")
    assert cli.main(["export", spec.id, "--to", target, "--results", str(tmp_path)]) == 0
    assert capfd.readouterr() == (f"run {spec.id} was exported to {target}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        name if name in OFTEN else pytest.param(name, marks=pytest.mark.nightly)
        for name in (*FIELDS, "xlnet")
    ],
)
def test_an_export_of_every_family_predicts_as_the_record_says(family, directory_of, tmp_path):
    """The export's tokenizer pads all texts into one batch."""
    method = METHODS["lora-II" if family in FIELDS else "full"]
    spec, _ = recorded(tmp_path, directory_of(family), method, "rte")
    out = exported(tmp_path, spec)
    model = AutoModelForSequenceClassification.from_pretrained(out).eval()
    # AutoTokenizer would read another kind of vocabulary for some families.
    tokenizer = PreTrainedTokenizerFast.from_pretrained(out)
    rows = examples.rows_of(TASKS["rte"])["validation"]
    texts = tokenizer(
        *map(list, (rows["text_a"], rows["text_b"])), padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        predicted = model(**texts).logits.numpy()
    assert predicted == pytest.approx(logits_on_record(tmp_path, spec), abs=1e-5)

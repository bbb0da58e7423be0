"""Predictions of exported models: the recorded ones, or an error in one line."""

import csv
import json
import shutil

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from peft import AutoPeftModelForSequenceClassification

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.methods.names import METHODS
from subtune.models import files
from subtune.runs import records
from subtune.share import predict
from subtune.share.export import export_adapter, export_model
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.peft_types import selection_of
from tests.helpers.records import (
    logits_on_record,
    on_record,
    record,
    recorded,
    recorded_embeddings,
)


def said_of(directory, **changed) -> pd.DataFrame:
    """Return an exported model's predictions for its task's dev rows."""
    spec = predict.exported_spec(directory)
    task = TASKS[spec.tokens.data.task.name]
    rows = examples.rows_of(task)["validation"]
    if task.kind == "tokens":
        cells = [{task.text[0]: words} for words in rows["words"]]
    else:
        texts = task.of_kind.texts(rows.to_dict())
        cells = [dict(zip(task.text, text, strict=True)) for text in texts]
    placed = [(f"row {number}", row) for number, row in enumerate(cells)]
    return predict.predict(directory, spec, task.spec(), placed, "rows", **changed)


def assert_as_recorded(results, spec) -> None:
    """Fail unless the predictions of the model in ``out`` follow from the recorded logits."""
    said, labels = said_of(results / "out"), TASKS[spec.tokens.data.task.name].labels
    logits = logits_on_record(results, spec)
    if labels is None:
        assert said.columns.tolist() == ["prediction"]
        assert said["prediction"].to_numpy() == pytest.approx(logits[:, 0], abs=1e-5)
        return
    softmax = np.exp(logits - logits.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    assert said["prediction"].tolist() == [labels[k] for k in logits.argmax(1)]
    assert said.columns[1:].tolist() == [f"probability_{label}" for label in labels]
    assert said.iloc[:, 1:].to_numpy() == pytest.approx(softmax, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "task", "selection", "adapter", "pooling"),
    [
        ("bert", "sst2", METHODS["layernorm"], False, None),
        ("bert", "stsb", METHODS["lora-I"], True, None),
        ("roberta", "stsb", METHODS["bitfit"], False, None),
        ("roberta", "sst2", METHODS["layernorm"], True, None),
        ("bert", "rte", METHODS["bitfit"], False, "mean"),
        ("roberta", "stsb", METHODS["full"], False, "mean"),
        ("bert", "sst2", METHODS["lora-I"], True, "mean"),
        ("bert", "rte", selection_of("IA3", "bert"), False, None),
        ("bert", "sst2", selection_of("PROMPT_TUNING", "bert"), False, "mean"),
        ("gpt2", "rte", METHODS["bitfit"], False, None),
        ("bart", "sst2", METHODS["bitfit"], False, None),
        ("modernbert", "sst2", METHODS["lora-I"], True, "mean"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_predictions_are_those_of_the_record(
    family, task, selection, adapter, pooling, tmp_path, directory_of
):
    spec, _ = recorded(tmp_path, directory_of(family), selection, task, pooling=pooling)
    write = export_adapter if adapter else export_model
    write(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    assert_as_recorded(tmp_path, spec)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "task", "pooling"),
    [("bert", "sst2", "mean"), ("bert", "rte", None), ("mpnet", "stsb", "mean")],
)
def test_a_regression_on_embeddings_predicts_as_the_record_says(
    family, task, pooling, tmp_path, directory_of
):
    spec = recorded_embeddings(tmp_path, directory_of(family), task, pooling)
    export_model(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    assert_as_recorded(tmp_path, spec)


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("task", ["ud_ewt", "squad"])
def test_words_and_answers_are_predicted_as_the_record_says(task, adapter, tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["lora-I"], task)
    write = export_adapter if adapter else export_model
    write(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    said = said_of(tmp_path / "out")["prediction"].tolist()
    table = on_record(tmp_path, spec)
    if task == "ud_ewt":
        said = [TASKS[task].labels.index(tag) for tags in said for tag in tags]
    assert said == table["prediction"].tolist()


def test_each_of_several_labels_has_a_probability_of_its_own():
    logits = np.array([[2.0, -1.0, 0.5], [-3.0, -0.1, -2.0]])
    said = predict._text_columns(examples.TOXIC.spec(), logits)
    assert said["prediction"] == [["toxic", "threat"], []]
    assert said["probability_insult"] == pytest.approx(1 / (1 + np.exp([1.0, 0.1])))


@pytest.fixture(scope="module")
def exported(tmp_path_factory, tiny_bert):
    """The folder of an exported model for `sst2`."""
    results = tmp_path_factory.mktemp("exported")
    spec, _ = recorded(results, tiny_bert, METHODS["layernorm"])
    export_model(Layout(str(results)), spec.id, results / "model")
    return results / "model"


def call(*arguments) -> int:
    return cli.main(["predict", *map(str, arguments)])


def test_a_table_keeps_its_columns(exported, tmp_path, capfd):
    rows = [("7", "a good film,\nreally"), ("8", 'a "bad" one'), ("9", "a good film,\nreally")]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "sentence"), *rows])
    capfd.readouterr()
    assert call(exported, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 0
    assert capfd.readouterr() == (f"3 rows are in {tmp_path / 'out.csv'}\n", "")
    table = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert [*table[["id", "sentence"]].itertuples(index=False, name=None)] == rows
    assert set(table["prediction"]) <= set(TASKS["sst2"].labels)
    assert table.iloc[0, 2:].tolist() == table.iloc[2, 2:].tolist()
    assert table.filter(like="probability_").astype(float).sum(1).to_numpy() == pytest.approx(1)
    (tmp_path / "other.jsonl").write_text('{"review": "a good film,\\nreally"}\n')
    columns = ("--text", "review", "--to", tmp_path / "other.csv")
    assert call(exported, tmp_path / "other.jsonl", *columns) == 0
    other = pd.read_csv(tmp_path / "other.csv", dtype=str)
    assert other.columns[1:].tolist() == table.columns[2:].tolist()
    assert other["prediction"][0] == table["prediction"][0]


BAD = {
    "no column of text": ("in.csv", "id,text\n1,a\n", "line 2: no such column: found 'sentence'"),
    "an empty text": ("in.csv", "id,sentence\n1,a\n2, \n", "line 3: found no text"),
    "no rows": ("in.csv", "id,sentence\n", "found no rows"),
    "another format": ("in.pdf", "", "found '.pdf', expected one of"),
}


@pytest.mark.parametrize(("name", "content", "problem"), BAD.values(), ids=BAD)
def test_a_table_that_does_not_fit_gets_a_line_and_nothing_is_written(
    exported, tmp_path, capfd, name, content, problem
):
    (tmp_path / name).write_text(content)
    assert call(exported, tmp_path / name, "--to", tmp_path / "out.csv") == 1
    [line] = capfd.readouterr().err.splitlines()
    assert problem in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def broken(directory, name, content):
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)


UNLOADABLE = {
    "no export": ("subtune.json", None, "found no subtune.json in"),
    "another spec": ("subtune.json", b'{"seed": 1}', "subtune.json is not the spec of a run"),
    "no weights": ("model.safetensors", None, "cannot be loaded"),
    "half weights": ("model.safetensors", b"\x08", "cannot be loaded"),
    "no configuration": ("config.json", None, "found no config.json"),
    "no tokenizer": ("tokenizer.json", b"{", "tokenizer.json is not a readable tokenizer"),
    "a pickle": ("pytorch_model.bin", b"", "expected weights in safetensors alone"),
}


@pytest.mark.parametrize(("name", "content", "problem"), UNLOADABLE.values(), ids=UNLOADABLE)
def test_a_model_that_cannot_be_loaded_gets_a_line_and_nothing_is_written(
    exported, tmp_path, capfd, name, content, problem
):
    shutil.copytree(exported, tmp_path / "model")
    broken(tmp_path / "model", name, content)
    (tmp_path / "in.csv").write_text("sentence\na good film\n")
    assert call(tmp_path / "model", tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 1
    [line] = capfd.readouterr().err.splitlines()
    assert problem in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "model"]


@pytest.mark.parametrize("column", ["prediction", "probability_positive"])
def test_a_column_of_predictions_is_refused_before_the_model_is_loaded(
    exported, tmp_path, capfd, column
):
    shutil.copytree(exported, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    (tmp_path / "in.csv").write_text(f"sentence,{column}\na,b\n")
    assert call(tmp_path / "model", tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 1
    assert f"in.csv: found a column '{column}', which" in capfd.readouterr().err


def test_predictions_never_overwrite(exported, tmp_path, capsys):
    (tmp_path / "out.csv").write_text("mine")
    assert call(exported, tmp_path / "in.csv", "--to", tmp_path / "out.csv") == 1
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert call(exported, tmp_path / "in.csv", "--to", tmp_path / "out.xlsx") == 1
    assert "out.xlsx', expected a name that ends in .csv" in capsys.readouterr().err


def test_adapters_find_a_base_here_and_one_on_the_hub_from_another_folder(
    tmp_path, tiny_roberta, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    spec, tokens = recorded(tmp_path / "results", tiny_roberta, METHODS["lora-I"])
    assert cli.main(["export", spec.id, "--to", "local", "--adapter"]) == 0
    of_hub = spec.model.replaced(source="hub", repository="acme/tiny", version="a" * 40)
    for place in ("results/models", "cache/models--acme--tiny/snapshots"):
        name = of_hub.id if "results" in place else of_hub.version
        shutil.copytree(tiny_roberta, tmp_path / place / name)
    monkeypatch.setattr(records, "read_spec", lambda *_: spec.replaced(model=of_hub))
    export_adapter(Layout("results"), spec.id, tmp_path / "of-hub")
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


def test_an_adapter_whose_base_has_moved_is_named_and_takes_another(tmp_path, tiny_bert):
    spec, _ = recorded(tmp_path, tiny_bert, METHODS["lora-I"])
    export_adapter(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    expected = said_of(tmp_path / "out")
    moved = (tmp_path / "models").rename(tmp_path / "moved") / spec.model.id
    with pytest.raises(SubtuneError, match=r"found no folder .*, the adapter's base; --base names"):
        said_of(tmp_path / "out")
    pd.testing.assert_frame_equal(said_of(tmp_path / "out", base=moved), expected)
    (moved / "config.json").write_text((moved / "config.json").read_text() + "\n")
    with pytest.raises(SubtuneError, match="--base: found other files of a model"):
        said_of(tmp_path / "out", base=moved)


@pytest.mark.slow
def test_an_adapter_of_the_packaged_minilm_predicts_without_the_hub(tmp_path, minilm):
    spec = examples.run_spec(METHODS["lora-I"])
    model = spec.model.replaced(version=files.model_version(minilm), pooling="mean")
    spec = spec.replaced(model=model)
    shutil.copytree(minilm, tmp_path / "models" / model.id)
    record(tmp_path / "runs", [spec], minilm)
    export_adapter(Layout(str(tmp_path)), spec.id, tmp_path / "out")
    named = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert named["base_model_name_or_path"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert named["revision"] == files.MINILM.commit
    assert_as_recorded(tmp_path, spec)

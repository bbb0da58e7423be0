"""Model cards: metadata that the hub accepts, and code that gives the recorded predictions."""

import json
import re
import shutil

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from peft import AutoPeftModelForSequenceClassification, AutoPeftModelForTokenClassification
from tokenizers import Tokenizer, normalizers

from subtune.core.files import Layout
from subtune.methods import METHODS
from subtune.runs import records
from subtune.runs.spec import ModelSpec
from subtune.share.card import MINILM_ON_HUB, model_card
from subtune.share.export import export_model
from subtune.tasks import TASKS
from tests.helpers import examples
from tests.helpers.peft_types import OWN, OWN_FILE, selection_of
from tests.helpers.records import (
    logits_on_record,
    on_record,
    recorded,
    recorded_embeddings,
)

# Markdown or YAML would read this as a heading, a table row, a picture, an entry and the end of a
# code block.
NASTY = "# a\n---\n| b | ![c](d) <img src=x> `e` *f*: {g}\n```\n'\"\\\x1b"


def exported(results, spec, adapter=False) -> str:
    """Return the card of an export in the folder `out` beside the results."""
    export_model(Layout(str(results)), spec.id, results / "out", adapter=adapter)
    return (results / "out" / "README.md").read_text(encoding="utf-8")


def code_of(card: str) -> str:
    [code] = re.findall(r"^```python\n(.*?)^```$", card, re.M | re.S)
    return code


@pytest.fixture
def exported_code(tmp_path, monkeypatch):
    """A function that exports a run and returns the card's code, which can run in the test."""

    def exported_code(spec, adapter=False) -> str:
        code = code_of(exported(tmp_path, spec, adapter))
        monkeypatch.chdir(tmp_path)
        return re.sub(r"'path/of/the/base'", repr(str(tmp_path / "models" / spec.model.id)), code)

    return exported_code


def answers(code: str, rows, variables: str) -> list:
    """Return the output of a card's code for each row, whose cells replace the code's variables."""
    before, _, after = code.partition(f"{variables} = ")
    after = after.partition("\n")[2].replace("print(", "said.append(")
    said: list = []
    for cells in rows:
        values = dict(zip(variables.split(", "), cells, strict=True))
        exec(f"{before}\n{after}", {"said": said, **values})
    return said


@pytest.fixture(scope="module")
def shared(tmp_path_factory, tiny_bert):
    """Results with a run."""
    results = tmp_path_factory.mktemp("shared")
    return results, recorded(results, tiny_bert, METHODS["layernorm"], "rte")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "family", "method", "pooling", "adapter"),
    [
        ("rte", "bert", "layernorm", None, False),
        ("rte", "bert", "lora-II", None, True),
        ("stsb", "roberta", "bitfit", None, False),
        ("toxic", "bert", "bitfit", None, False),
        ("sst2", "roberta", "layernorm", None, True),
        ("sst2", "gpt2", "lora-I", None, True),
        ("sst2", "gpt2", "bitfit", None, False),
        ("sst2", "bert", "ia3", None, False),
        ("sst2", "bert", OWN, None, False),
        ("sst2", "bert", "layernorm", "mean", False),
        ("stsb", "bert", "layernorm", "mean", False),
        ("sst2", "bert", "lora-I", "mean", True),
        ("sst2", "bert", "ia3", "mean", True),
        ("sst2", "bert", "embeddings", "mean", False),
        ("rte", "bert", "embeddings", None, False),
        ("stsb", "mpnet", "embeddings", "mean", False),
    ],
)
def test_a_cards_code_gives_the_logits_of_the_record(
    task, family, method, pooling, adapter, tmp_path, directory_of, exported_code, monkeypatch
):
    monkeypatch.syspath_prepend(OWN_FILE.parent)
    if method == "embeddings":
        spec = recorded_embeddings(tmp_path, directory_of(family), task, pooling)
    else:
        selection = selection_of(OWN, family) if method == OWN else METHODS[method]
        spec, _ = recorded(tmp_path, directory_of(family), selection, task, pooling=pooling)
    code = exported_code(spec, adapter)
    data = ModelCard((tmp_path / "out" / "README.md").read_text(encoding="utf-8")).data
    encodes = not adapter and (pooling == "mean" or method == "embeddings")
    assert (data.library_name == "sentence-transformers") is encodes
    assert data.pipeline_tag == "text-classification" and "subtune" in data.tags
    rows = examples.rows_of(examples.TASKS[task])["validation"].to_dict()
    every = examples.TASKS[task].of_kind.texts(rows)
    for texts, expected in zip(every, logits_on_record(tmp_path, spec), strict=True):
        own = code
        for place, text in zip(("A first text.", "A second text."), texts, strict=False):
            own = own.replace(json.dumps(place), repr(text))
        said: dict = {}
        exec(own, said)
        assert np.asarray(said["logits"]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "adapter"), [("bert", True), ("roberta", False)])
def test_a_cards_code_tags_words_as_the_record_says(
    family, adapter, tmp_path, directory_of, exported_code
):
    task = TASKS["ud_ewt"]
    spec, _ = recorded(tmp_path, directory_of(family), METHODS["lora-I"], "ud_ewt")
    sentences = examples.rows_of(task)["validation"]["words"]
    said = answers(exported_code(spec, adapter), [(words,) for words in sentences], "words")
    by_text = on_record(tmp_path, spec).groupby("idx")["prediction"]
    for tags, (_, numbers) in zip(said, by_text, strict=True):
        expected = [task.labels[number] for number in numbers]
        # A longer text is cut; its later words are in another example.
        assert tags and (len(tags) < len(expected) or tags == expected)
    assert sum(len(tags) == len(words) for tags, words in zip(said, sentences, strict=True)) > 2


def test_a_cards_code_adds_no_space_that_the_tokenizer_adds(tmp_path, copied, exported_code):
    path = str(copied("bert") / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.normalizer = normalizers.Prepend("▁")
    tokenizer.save(path)
    spec, _ = recorded(tmp_path, tmp_path / "mine", METHODS["layernorm"], "ud_ewt")
    assert '[f"{word}" for word in words]' in exported_code(spec)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "adapter"), [("bert", True), ("roberta", False)])
def test_a_cards_code_answers_as_the_record_says(
    family, adapter, tmp_path, directory_of, exported_code
):
    spec, tokens = recorded(tmp_path, directory_of(family), METHODS["lora-I"], "squad")
    rows = examples.rows_of(TASKS["squad"])["validation"]
    windows = pd.Series(tokens["validation"]["row"]).value_counts()
    short = [number for number in range(len(rows)) if windows[number] == 1]
    predicted = on_record(tmp_path, spec)["prediction"].tolist()
    asked = [(rows[n]["question"], rows[n]["context"]) for n in short]
    said = answers(exported_code(spec, adapter), asked, "question, context")
    assert said and said == [predicted[number] for number in short]


def test_a_card_has_the_scores_of_its_run(shared):
    results, spec = shared
    score = records.read_outcome(results / "runs", spec.id)["scores"]["validation"]["accuracy"]
    card = model_card(Layout(str(results)), spec.id, "out", adapter=False)
    assert f"| validation | accuracy | {score:.4f} |" in card
    [result] = ModelCard(card).data.eval_results
    assert (result.metric_type, result.metric_value) == ("accuracy", score)


def test_a_base_on_the_hub_is_linked_and_hands_down_licence_and_language(
    shared, tmp_path, monkeypatch
):
    results, spec = shared
    version = "a" * 40
    model = ModelSpec(source="hub", repository="acme/tiny", version=version)
    from_hub = spec.replace(model=model)
    base = results / "models" / model.id
    shutil.copytree(results / "models" / spec.model.id, base)
    (base / "README.md").write_text("---\nlicense: mit\nlanguage: [en]\ntags: [x]\n---\n# tiny\n")
    monkeypatch.setattr(records, "read_spec", lambda store, run: from_hub)
    card = model_card(Layout(str(results)), spec.id, "me/mine", adapter=True)
    data = ModelCard(card).data
    assert (data.base_model, data.base_model_relation) == ("acme/tiny", "adapter")
    assert (data.license, data.language, data.library_name) == ("mit", ["en"], "peft")
    assert f"revision='{version}'" in code_of(card) and "place = 'me/mine'" in code_of(card)
    shutil.copytree(results / "runs" / spec.id, results / "runs" / from_hub.id)
    export_model(Layout(str(results)), from_hub.id, tmp_path / "out", adapter=True)
    written = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (written["base_model_name_or_path"], written["revision"]) == (
        "acme/tiny",
        version,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "kind"),
    [(None, AutoPeftModelForSequenceClassification), ("mean", AutoPeftModelForTokenClassification)],
)
def test_an_adapter_of_the_packaged_model_loads_as_its_card_says(
    pooling, kind, exported_code, minilm, tmp_path, monkeypatch, capsys
):
    spec, _ = recorded(tmp_path, minilm, METHODS["lora-I"], pooling=pooling)
    code = exported_code(spec, adapter=True)
    repository, version = MINILM_ON_HUB
    cached = f"models--{repository.replace('/', '--')}/snapshots/{version}"
    shutil.copytree(minilm, tmp_path / "cache" / cached)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    capsys.readouterr()
    exec(code, {})
    assert capsys.readouterr().out.strip() in TASKS["sst2"].labels
    assert kind.from_pretrained("out")


@pytest.mark.parametrize("text", ["---\n: [\n---\n", ""])
def test_a_base_whose_card_cannot_be_read_hands_nothing_down(shared, tmp_path, text):
    results, spec = shared
    shutil.copytree(results, tmp_path / "results")
    (tmp_path / "results" / "models" / spec.model.id / "README.md").write_text(text)
    card = model_card(Layout(str(tmp_path / "results")), spec.id, "out", adapter=False)
    assert ModelCard(card).data.license is None


def test_names_change_neither_the_metadata_nor_the_page_nor_the_code(shared, monkeypatch):
    results, spec = shared
    data = spec.tokens.data
    task = data.task.replace(name=NASTY, labels=(NASTY, "```"))
    nasty = spec.replace(tokens=spec.tokens.replace(data=data.replace(task=task)))
    monkeypatch.setattr(records, "read_spec", lambda store, run: nasty)
    names = {spec.id: (NASTY, NASTY)}
    monkeypatch.setattr("subtune.share.card.read_model_and_method_names", lambda path: names)
    plain = model_card(Layout(str(results)), spec.id, NASTY, adapter=True)
    card = ModelCard(plain)
    [result] = card.data.eval_results
    assert re.fullmatch(r"[\w.-]+", result.dataset_type)
    assert "\x1b" not in plain
    page = MarkdownIt("commonmark").enable("table").render(card.text)
    assert re.findall(r"<h\d", page) == ["<h1", "<h2"]
    assert page.count("<table>") == 1 and page.count("<pre>") == 1
    assert not re.search("<img|<em>|<a |<hr", page)
    said: dict = {}
    exec("\n".join(re.findall(r"^(?:place|labels) = .*", code_of(plain), re.M)), said)
    assert said["place"] == NASTY and said["labels"] == [NASTY, "```"]

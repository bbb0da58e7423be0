"""Each paper lists what it left open, and what differs in subtune."""

import re

import pandas as pd
import pytest
import yaml
from docs._ext import left_open

from subtune import papers
from subtune.config.checks import read_config
from subtune.core.errors import SubtuneError
from subtune.methods import find_selection
from subtune.methods.selection import Whole
from subtune.models.dimensions import known_dimensions
from subtune.papers import assign_papers
from subtune.papers.choices import read_choices, tabulate_choices
from tests.helpers.examples import experiment
from tests.helpers.exhibits import made
from tests.helpers.project import ROOT

ENTRY = {"printed_in": "A.2", "paper": "Not stated.", "subtune": "128.", "why": "Its code."}
CHOICES = {name: papers.find_paper(name).read_choices() for name in papers.paper_names()}
BERT = known_dimensions("bert-base-cased").shapes(outputs=2)


@pytest.fixture(scope="module")
def at_scale():
    return assign_papers(read_config(ROOT / "config.yaml"))


@pytest.mark.parametrize("paper", papers.paper_names())
def test_every_paper_has_a_list_of_whole_sentences_which_the_report_shows_as_a_table(paper):
    assert len(CHOICES[paper]) > 5 and "not_tested" in CHOICES[paper]
    rows = tabulate_choices(CHOICES[paper], experiment())
    styled = made(paper, "left_open", {"left_open": pd.DataFrame(rows)})
    assert len(styled.table) == len(CHOICES[paper]) and set(styled.wide) < set(styled.table)
    for choice in CHOICES[paper].values():
        for text in (choice.paper, choice.subtune, choice.why):
            assert text.endswith(".") and "  " not in text


@pytest.mark.parametrize("paper", papers.paper_names())
def test_settings_have_the_values_of_the_configuration_at_the_papers_scale(paper, at_scale):
    for name, choice in CHOICES[paper].items():
        tasks = set(choice.tasks)
        of_tasks = [
            experiment
            for experiment in at_scale.experiments.values()
            if experiment.paper == paper and (tasks & {*experiment.tasks} or not tasks)
        ]
        assert any(not choice.list_differences(experiment) for experiment in of_tasks), name


def entries(**change):
    return yaml.safe_dump({"other": ENTRY, "mine": ENTRY | change})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entries(why=""), "mine.why: found '', expected at least 1 character"),
        (entries(why=5), "mine.why: found 5, expected text"),
        (entries(wy="x"), "mine.wy: "),
        (
            entries(settings={"epoch": 1}),
            "mine.settings: found 'epoch', expected one of .*'epochs'",
        ),
        (entries(selections={"own": {"random": {}}}), "mine.selections.own"),
        ("mine: {paper: x}", "mine.printed_in: missing, expected a value"),
        ("mine: just text", "mine: found 'just text', expected a mapping \\(key: value\\)"),
        ("- paper", "found list, expected a mapping \\(key: value\\)"),
        ("", "found nothing, expected a mapping \\(key: value\\)"),
        ("mine: {paper: x", r"not valid YAML \(.* line 1"),
        ("mine: {}\nmine: {}", "line 2: found 'mine' a second time"),
    ],
)
def test_a_mistake_is_refused_by_file_and_entry(text, message, tmp_path):
    path = tmp_path / "choices.yaml"
    path.write_text(text)
    with pytest.raises(SubtuneError, match=f"^{re.escape(str(path))}: {message}"):
        read_choices(path)


def tabulate(name, **settings):
    [row] = tabulate_choices({name: CHOICES["bitfit"][name]}, experiment(**settings))
    return row


def test_the_table_shows_settings_and_where_an_experiment_has_others():
    row = tabulate("epochs", tasks=["rte", "cola"], epochs=20, by_task={"cola": {"epochs": 3}})
    assert row["subtune"].endswith("are reported. epochs: 20")
    assert row["in this experiment"] == "epochs: 20 or epochs: 3"
    assert tabulate("epochs", epochs=20)["in this experiment"] == "–"
    here = tabulate("squad", tasks=["rte", "squad"])["in this experiment"]
    assert here == "train_rows: [all], max_length: 128"
    assert tabulate("squad", tasks=["rte"])["in this experiment"] == "–"


@pytest.mark.parametrize("paper", papers.paper_names())
def test_every_list_shows_other_models_tasks_examples_and_learning_rates(paper):
    smaller = {"models": ["minilm"], "tasks": ["rte"], "train_rows": [64]}
    own_rates = {"methods": {"full": [0.001], "bitfit": None}, "learning_rates": [0.006]}
    rows = tabulate_choices(CHOICES[paper], experiment(**smaller, **own_rates))
    here = ", ".join(row["in this experiment"] for row in rows)
    for text in ("models: [minilm]", "tasks: [rte]", "train_rows: [64]"):
        assert text in here
    # A method with null has the learning rates of the experiment.
    assert "methods: {full: [0.001], bitfit: null}" in here and "learning_rates: [0.006]" in here


@pytest.mark.parametrize("paper", papers.paper_names())
def test_the_page_has_a_row_for_every_entry_of_every_paper(paper):
    text = left_open.tables()
    assert text.count("\n## ") + 1 == len(papers.paper_names())
    list_of_paper = left_open.section(papers.find_paper(paper))
    assert list_of_paper in text
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", list_of_paper, re.M)[1:]
    assert [name for name, _ in rows] == [*CHOICES[paper]]
    for (_, row), choice in zip(rows, CHOICES[paper].values(), strict=True):
        cells = re.split(r" (?<!\\)\| ", row)
        assert len(cells) == 4
        cells = [cell.replace(r"\|", "|") for cell in cells]
        assert cells[0] == choice.printed_in and cells[1] == choice.paper
        assert cells[2].startswith(choice.subtune) and cells[3] == choice.why
        assert all(f"`{text}`" in cells[2] for text in choice.as_yaml())


def code_selects(*texts):
    """What the published codes train: parameters whose names contain a text, and the pooler's bias.

    `_deactivate_relevant_gradients` in `glue_evaluator.py` of BitFit and of BitFit+.
    """
    names = (name for name in BERT if not name.startswith("classifier"))
    return {name for name in names if any(t in name for t in (*texts, "pooler.dense.bias"))}


Q, M2, LN2 = "self.query.bias", "intermediate.dense.bias", "output.LayerNorm.bias"
G1, G2 = "attention.output.LayerNorm.weight", "output.LayerNorm.weight"
OTHERS = "self.key.bias", "self.value.bias", "output.dense.bias", LN2


@pytest.mark.parametrize(
    ("paper", "method", "texts", "count"),
    [
        ("bitfit", "b_m2,b_q,pooler_bias", [M2, Q], 46_848),
        ("bitfit", "b_m2,pooler_bias", [M2], 37_632),
        ("bitfit", "b_q,pooler_bias", [Q], 9_984),
        ("bitfit_plus", "g_LN1,pooler_bias", [G1], 9_984),
        # The published code's selection for g_LN2, and for g_LN1 and g_LN2.
        ("bitfit_plus", "g_LN1,g_LN2,pooler_bias", [G2], 19_200),
        ("bitfit_plus", "g_LN1,g_LN2,pooler_bias", [G1, G2], 19_200),
        ("bitfit_plus", "b_k, b_v, b_m1, b_m3, b_LN1, b_LN2, pooler_bias", OTHERS, 56_064),
        ("beft", "b_v,pooler_bias", ["self.value.bias"], 9_984),
    ],
)
def test_a_selection_of_a_list_trains_what_the_published_code_trains(paper, method, texts, count):
    choices = CHOICES[paper].values()
    assert any(method in choice.subtune for choice in choices)
    own = {name: of for choice in choices for name, of in choice.selections.items()}
    entries = find_selection(method, own).resolve(BERT, seed=0)
    trained = {name for name in entries if not name.startswith("classifier")}
    assert trained == code_selects(*texts)
    assert sum(BERT[name][0] for name in trained) == count
    assert all(entries[name] == Whole() for name in trained)


def test_random_biases_of_the_published_code_are_fewer_than_those_of_the_text():
    """`set_uniform_bias_mask` rounds down in each bias: 0.04 % of the parameters, and less."""
    biases = (name for name in BERT if name.endswith("bias") and name != "classifier.bias")
    sizes = [BERT[name][0] for name in biases]
    drawn = sum(size * 43_324 // sum(sizes) for size in sizes)
    own = CHOICES["bitfit_plus"]["rand_bias"].selections
    assert own["rand_bias_code"].random.count == drawn == 43_294
    draws = find_selection("rand_bias", {}).resolve(BERT, seed=0)
    assert sum(len(e.flat) for n, e in draws.items() if not n.startswith("classifier")) == 46_080

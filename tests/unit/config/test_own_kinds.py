"""A user's own tasks of words and spans: from YAML and files to a plan, and refusals."""

import json

import pytest

from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.plan.plan import make_plan
from subtune.tasks.task import KINDS
from tests.helpers.plans import BASE

CONLLU = """# text = It runs .
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""
CONLL = "It B\nruns O\n\nShe B\nsings O\n"
JSONL = '{"words": ["It", "runs"], "tags": ["B", "O"]}\n{"words": ["She"], "tags": ["B"]}\n'
QUESTION = {"id": "0", "question": "Who runs?", "answers": [{"text": "dog", "answer_start": 4}]}
SQUAD = json.dumps({"data": [{"paragraphs": [{"context": "The dog runs.", "qas": [QUESTION]}]}]})
WORDS = {"kind": "tokens", "labels": ["B", "O"]}
NAMED = {"kind": "tokens", "text": ["form"], "label": "upos", "labels": ["PRON", "VERB", "PUNCT"]}


@pytest.fixture
def plan_files(tmp_path):
    """Plan a task with a training file and a dev file."""

    def planned(ending, train, validation, **task):
        paths = {split: str(tmp_path / f"{split}.{ending}") for split in ("train", "validation")}
        for path, text in zip(paths.values(), (train, validation), strict=True):
            (tmp_path / path).write_text(text)
        experiment = {"models": ["minilm"], "tasks": ["mine"], "methods": {"bitfit": [1e-3]}}
        experiment |= {"max_length": 64, "epochs": 1, "batch_size": 8}
        own = {"tasks": {"mine": {"files": paths} | task}, "experiments": {"e": experiment}}
        [run] = make_plan(check_config(BASE | own)).runs.values()
        return run.spec.tokens

    return planned


@pytest.mark.parametrize(
    ("ending", "text", "task"),
    [
        ("conllu", CONLLU, NAMED),
        ("conll", CONLL, WORDS | {"text": ["1"], "label": "2"}),
        ("jsonl", JSONL, WORDS | {"text": ["words"], "label": "tags"}),
        ("json", SQUAD, {"kind": "span"}),
    ],
)
def test_a_task_of_ones_own_is_planned(plan_files, ending, text, task):
    tokens, kind = plan_files(ending, text, text, **task), KINDS[task["kind"]]
    assert tokens.data.task.of_kind is kind
    assert tokens.data.task.metrics == kind.default_metrics
    assert (tokens.doc_stride is not None) == kind.overlaps


@pytest.mark.parametrize("ending", ["conll", "txt"])
def test_columns_without_names_are_asked_for_by_number(plan_files, ending):
    task = plan_files(ending, CONLL, CONLL, **WORDS, text=[1], label=2).data.task
    assert (task.text, task.label) == (("1",), "2")


def test_what_is_wrong_in_a_file_is_said_before_any_work(plan_files):
    message = r"train\.conllu: line 2: word 2: label: found 'VRB', expec"
    with pytest.raises(SubtuneError, match=message):
        plan_files("conllu", CONLLU.replace("VERB", "VRB"), CONLLU, **NAMED)

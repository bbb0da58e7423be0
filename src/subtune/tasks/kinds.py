"""What exports ask of kinds of task, until the kinds themselves are here."""

from types import SimpleNamespace

from subtune.tasks.task import TaskSpec

SEQUENCES = {
    "head": "sequence_classification",
    "auto_class": "AutoModelForSequenceClassification",
    "peft_type": "SEQ_CLS",
    "outputs": lambda task: task.num_labels,
}
KINDS = {
    "classification": SimpleNamespace(**SEQUENCES, problem_type="single_label_classification"),
    "regression": SimpleNamespace(**SEQUENCES, problem_type="regression"),
    "tokens": SimpleNamespace(
        head="token_classification",
        auto_class="AutoModelForTokenClassification",
        peft_type="TOKEN_CLS",
        problem_type=None,
        outputs=lambda task: task.num_labels,
    ),
    "span": SimpleNamespace(
        head="question_answering",
        auto_class="AutoModelForQuestionAnswering",
        peft_type="QUESTION_ANS",
        problem_type=None,
        outputs=lambda task: 2,
    ),
}


def kind_of(task: TaskSpec) -> SimpleNamespace:
    """The kind that a task is of."""
    return KINDS[task.kind]

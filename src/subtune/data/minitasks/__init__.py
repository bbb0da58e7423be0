"""Rows of the mini tasks, drawn from words and templates in a resource."""

from random import Random

from subtune.core import resources
from subtune.data.minitasks import questions, sentences, tagging
from subtune.data.minitasks.base import MiniTask, Row

MINI_TASKS: dict[str, MiniTask] = sentences.MINI_TASKS | tagging.MINI_TASKS | questions.MINI_TASKS


def draw(name: str, rng: Random, mismatched: bool) -> Row:
    """One example of a task; a mismatched one, as in MNLI, speaks of other things."""
    of_all = resources.read_yaml("subtune.data.minitasks", "minitasks.yaml")
    words = of_all["shared"] | of_all[name]
    return MINI_TASKS[name].draw(rng, words | words["mismatched"] if mismatched else words)

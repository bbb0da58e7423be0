"""Sentences whose words carry Penn Treebank tags, drawn from a grammar in a resource.

Most of the nouns and verbs are forms of the same stems ("the visits", "she visits"), and many of
the small words have several tags ("that", "her", "to"), so that context decides.
"""

from collections.abc import Mapping, Sequence
from random import Random

from subtune.data.minitasks import MiniTask, Row, Words, capitalised, with_articles
from subtune.tasks import TaskSpec


def _sentence(rng: Random, words: Words) -> Row:
    # Names are the same as in the other mini tasks.
    names = {"name": [f"{name}/NNP" for name in words["names"]]}
    forms = {
        tag: [f"{stem}{ending}/{tag}" for stem in words["stems"]]
        for tag, ending in words["endings"].items()
    }
    tokens = _expand("sentence", words["grammar"] | names | forms, rng)
    forms_and_tags = [token.rpartition("/") for token in tokens]
    text = with_articles(" ".join(form for form, _, _ in forms_and_tags))
    return {"form": capitalised(text).split(), "xpos": [tag for _, _, tag in forms_and_tags]}


def _expand(symbol: str, grammar: Mapping[str, Sequence[str]], rng: Random) -> list[str]:
    """The words with their tags, such as ``visits/NNS``, that a symbol of the grammar becomes."""
    if symbol not in grammar:
        return [symbol]
    rule = rng.choice(grammar[symbol])
    return [token for part in rule.split() for token in _expand(part, grammar, rng)]


def mislabel(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
    """Give a share of the words the tag of another word of their sentence, or the one they have."""
    tags = tuple(row["xpos"])
    row["xpos"] = [rng.choice(tags) if rng.random() < share else tag for tag in tags]


MINI_TASKS = {"ud_ewt": MiniTask(_sentence, mislabel)}

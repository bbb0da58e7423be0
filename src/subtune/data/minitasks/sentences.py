"""Examples of GLUE's mini tasks, drawn from words and templates in a resource.

The order of draws decides the rows, and so the ids of all runs on them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from subtune.data.minitasks import MiniTask, Row, Words, capitalised, with_articles
from subtune.tasks import TASKS, TaskSpec

# The texts of a row, and its label.
Texts = tuple[str, ...]


def mislabel(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
    """Give a share of the rows another label word; scores of a regression vary by themselves."""
    if task.labels and rng.random() < share:
        row["label"] = rng.choice([word for word in task.labels if word != row["label"]])


def _cola(rng: Random, words: Words) -> Texts:
    verb = rng.choice(words["verbs"])
    first, second = rng.sample(words["objects"], 2)
    acceptable = rng.random() < 0.6
    template = rng.choice(words["pairs"])[0 if acceptable else 1]
    slots = _slots(rng, words, noun="nouns", name="names", adverb="adverbs") | verb
    sentence = with_articles(template.format(object=first, object2=second, **slots))
    return sentence, "acceptable" if acceptable else "unacceptable"


def _mnli(rng: Random, words: Words) -> Texts:
    premise, *hypotheses = rng.choice(words["scenes"])
    name = rng.choice(words["names"])
    ending = rng.choice(words["endings"]).format(town=rng.choice(words["towns"]))
    labels = ("entailment", "contradiction", "neutral")
    label, hypothesis = rng.choice(list(zip(labels, hypotheses, strict=True)))
    subject = rng.choice((name, "someone" if label == "entailment" else name))
    return f"{name} {premise}{ending}.", capitalised(f"{subject} {hypothesis}."), label


def _mrpc(rng: Random, words: Words) -> Texts:
    slots = _slots(rng, words, company="companies", town="towns", person="surnames")
    event = rng.choice(words["events"])
    first, second = rng.sample(event, 2)
    equivalent = rng.random() < 0.6
    if not equivalent:
        second = rng.choice(_another(rng, event, words["events"]))
    label = "equivalent" if equivalent else "not_equivalent"
    return first.format(**slots), second.format(**slots), label


def _qnli(rng: Random, words: Words) -> Texts:
    slots = {
        "place": rng.choice(words["places"]),
        "year": rng.randrange(1780, 2015),
        "person": f"{rng.choice(words['names'])} {rng.choice(words['surnames'])}",
        "stuff": rng.choice(words["materials"]),
    }
    fact = rng.choice(words["facts"])
    entailed = rng.random() < 0.5
    _, *answers = fact if entailed else _another(rng, fact, words["facts"])
    answer = with_articles(capitalised(rng.choice(answers).format(**slots)))
    return fact[0].format(**slots), answer, "entailment" if entailed else "not_entailment"


def _qqp(rng: Random, words: Words) -> Texts:
    group = rng.choice(words["groups"])
    row = rng.choice(group)
    slots = {slot: rng.choice(values) for slot, values in words["slots"].items()}
    duplicate = rng.random() < 0.45
    first, second = rng.sample(row, 2)
    slots2 = slots
    if not duplicate:
        if rng.random() < 0.5:
            second = rng.choice(_another(rng, row, group))
        else:
            slots2 = {
                slot: _another(rng, slots[slot], values) for slot, values in words["slots"].items()
            }
    label = "duplicate" if duplicate else "not_duplicate"
    return first.format(**slots), second.format(**slots2), label


def _rte(rng: Random, words: Words) -> Texts:
    who, other = rng.sample(words["names"], 2)
    job = rng.choice(words["jobs"])
    born, home = rng.sample(words["towns"], 2)
    prize = rng.choice(words["prizes"])
    slots = {"who": who, "other": other, "job": job, "born": born, "home": home, "prize": prize}
    story, *others = [with_articles(t.format(**slots)) for t in rng.choice(words["stories"])]
    entailed = rng.random() < 0.5
    return story, others[0 if entailed else 1], "entailment" if entailed else "not_entailment"


def _sst2(rng: Random, words: Words) -> Texts:
    label, opposite = "positive", "negative"
    if rng.random() >= 0.5:
        label, opposite = opposite, label
    first, second = rng.sample(words[label], 2)
    template = rng.choice(words["twisted" if rng.random() < 0.3 else "plain"])
    thing, other = rng.choice(words["things"]), rng.choice(words[opposite])
    sentence = template.format(thing=thing, same=first, same2=second, other=other)
    return with_articles(sentence), label


def _stsb(rng: Random, words: Words) -> Texts:
    """Start from 5 and take off for what differs: subject, action, place."""
    score = 5.0
    topic = rng.choice(words["subjects"])
    subject = rng.choice(topic)
    row = rng.choice(words["actions"])
    action = rng.choice(row)
    place = rng.choice(words["places"])
    subject2, action2, place2 = subject, action, place
    changes = rng.choice((0, 1, 1, 2, 2, 3, 4))
    for change in rng.sample(("subject", "action", "place", "all"), changes):
        if change == "subject" and subject2 == subject:
            subject2 = _another(rng, subject, topic)
            score -= 1.4
        elif change == "action" and action2 == action:
            action2 = row[1 - row.index(action)]
            score -= 1.6
        elif change == "place" and place2 == place:
            place2 = _another(rng, place, words["places"])
            score -= 0.8
        elif change == "all":
            subject2 = rng.choice(words["subjects"][1 - words["subjects"].index(topic)])
            action2 = rng.choice(_another(rng, row, words["actions"]))
            score -= 3.0
    first = " ".join(rng.choice(part) for part in (subject, action, place))
    second = " ".join(rng.choice(part) for part in (subject2, action2, place2))
    if first == second:
        score = 5.0
    # Several people judged each pair of STS-B, so that scores are not whole numbers.
    score = min(5.0, max(0.0, score + rng.choice((-0.4, -0.2, 0.0, 0.0, 0.2))))
    return capitalised(f"{first}."), capitalised(f"{second}."), f"{score:.3f}"


def _slots(rng: Random, words: Words, **lists: str) -> dict[str, str]:
    """Draw a word for each slot from the list of this name."""
    return {slot: rng.choice(words[name]) for slot, name in lists.items()}


def _another(rng: Random, value: Any, values: Sequence) -> Any:
    return rng.choice([other for other in values if other != value])


def _row(columns: Texts, draw: Callable[[Random, Words], Texts], rng: Random, words: Words) -> Row:
    return dict(zip((*columns, "label"), draw(rng, words), strict=True))


DRAWS = {
    "qnli": _qnli,
    "sst2": _sst2,
    "mnli": _mnli,
    "cola": _cola,
    "mrpc": _mrpc,
    "stsb": _stsb,
    "rte": _rte,
    "qqp": _qqp,
}
MINI_TASKS = {
    name: MiniTask(partial(_row, TASKS[name].text, draw), mislabel) for name, draw in DRAWS.items()
}

"""Mini tasks: small English tasks in the form of the real ones, by templates and a fixed seed.

Every task has the columns, label words and splits of the task it stands for. No sentence pair,
sentence or story occurs twice, so that nothing of the dev set was seen in training. One label in
twenty is wrong, as where people disagree, so that no method reaches a perfect score.

Words and templates are in `minitasks.yaml`. The order of draws decides the rows, and so the ids of
all runs on them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from subtune.core import resources
from subtune.tasks import TASKS, Task, TaskSpec

TRAIN_ROWS = 200
EVALUATION_ROWS = 100
TEST_ROWS = 40
WRONG_LABELS = 0.05
# Cells by column.
Row = dict[str, Any]
# Words and templates of a task, and those that all share.
Words = dict[str, Any]
# The texts of a row, and its label.
Texts = tuple[str, ...]


class MiniTask(NamedTuple):
    """Functions that make the rows of one mini task.

    ``draw`` makes a row. ``mislabel`` makes the label of a row wrong, by chance: of so large a
    share of all labels.
    """

    draw: Callable[[Random, Words], Row]
    mislabel: Callable[[TaskSpec, Random, Row, float], None]


def version(task: Task) -> str:
    """Return the hash of all rows, so that a changed template makes a new dataset."""
    text = json.dumps(splits(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def columns_of(task: Task) -> dict[str, dict[str, list]]:
    """Return the columns of every split, as the task's kind has them."""
    return {
        split: task.of_kind.from_rows(
            task,
            ((f"row {number}", row) for number, row in enumerate(rows, start=1)),
            labelled=split in task.labelled,
            source=f"mini task {task.name} {split}",
        )
        for split, rows in splits(task).items()
    }


def splits(task: Task) -> dict[str, list[Row]]:
    """Return the rows of every split, the same on every machine. Test rows have no labels."""
    mini = MINI_TASKS[task.name]
    of_all = resources.read_yaml("subtune.data", "minitasks.yaml")
    words = of_all["shared"] | of_all[task.name]
    sizes = dict.fromkeys(task.evaluation, EVALUATION_ROWS) | dict.fromkeys(task.test, TEST_ROWS)
    seen = set()
    result = {}
    for split, size in {"train": TRAIN_ROWS, **sizes}.items():
        rng = Random(f"{task.name}/{split}")
        # Mismatched rows, as in MNLI, speak of other things.
        of_split = words | words["mismatched"] if split.endswith("mismatched") else words
        rows: list[Row] = []
        while len(rows) < size:
            row = mini.draw(rng, of_split)
            texts = str([row[column] for column in task.text])
            if texts not in seen:
                seen.add(texts)
                mini.mislabel(task, rng, row, WRONG_LABELS)
                rows.append(row)
        if split in task.test:
            rows = [{column: row[column] for column in task.text} for row in rows]
        result[split] = rows
    return result


def capitalised(text: str) -> str:
    """Return a text with a capital at its beginning; other letters stay."""
    return text[0].upper() + text[1:]


def with_articles(text: str) -> str:
    """Turn "a" into "an" where a vowel sound follows."""
    return re.sub(r"\b([Aa]) (?=[aeiou]|honest|hour)", r"\1n ", text)


def _mislabel_text(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
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


def _sentence(rng: Random, words: Words) -> Row:
    """Draw a sentence with its tags from a grammar.

    Most of the nouns and verbs are forms of the same stems ("the visits", "she visits"), and many
    of the small words have several tags ("that", "her", "to"), so that context decides.
    """
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


def _mislabel_words(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
    """Give a share of the words the tag of another word of their sentence, or the one they have."""
    tags = tuple(row["xpos"])
    row["xpos"] = [rng.choice(tags) if rng.random() < share else tag for tag in tags]


def _question(rng: Random, words: Words) -> Row:
    """Draw a short story, and a question that a few words of it answer.

    A story tells several facts of the same sorts, with other people, things, towns and days, so
    that only the fact that a question speaks of answers it.
    """
    number = rng.choice((1, 2, 3))
    facts = [rng.choice(words["facts"]) for _ in range(number)]
    values = {slot: rng.sample(words[listed], number) for slot, listed in words["slots"].items()}
    slots = [{slot: of_slot[i] for slot, of_slot in values.items()} for i in range(number)]
    sentences = [
        rng.choice(fact["sentences"]).format(**of_fact)
        for fact, of_fact in zip(facts, slots, strict=True)
    ]
    asked = rng.randrange(number)
    slot, questions = rng.choice(list(facts[asked]["questions"].items()))
    start = len(" ".join([*sentences[:asked], ""]))
    value, preposition = slots[asked][slot], words["prepositions"].get(slot)
    # Where the sentence has a preposition before the value, both together answer as well.
    longer = f"{preposition} {value}"
    answers = [value, longer] if preposition and longer in sentences[asked] else [value]
    return {
        "question": rng.choice(questions).format(**slots[asked]),
        "context": " ".join(sentences),
        "answers": {
            "text": answers,
            "answer_start": [start + sentences[asked].index(answer) for answer in answers],
        },
    }


def _mislabel_answer(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
    """Answer a share of the questions by the first words of the story."""
    if rng.random() < share:
        words = " ".join(row["context"].split()[: rng.randint(1, 3)])
        row["answers"] = {"text": [words], "answer_start": [0]}


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
    name: MiniTask(partial(_row, TASKS[name].text, draw), _mislabel_text)
    for name, draw in DRAWS.items()
} | {
    "ud_ewt": MiniTask(_sentence, _mislabel_words),
    "squad": MiniTask(_question, _mislabel_answer),
}

"""Short stories and questions that a few words of them answer, drawn from facts in a resource.

A story tells several facts of the same sorts, with other people, things, towns and days, so that
only the fact that a question speaks of answers it.
"""

from random import Random

from subtune.data.minitasks import MiniTask, Row, Words
from subtune.tasks import TaskSpec


def _question(rng: Random, words: Words) -> Row:
    number = rng.choice((3, 4, 5, 6))
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


def mislabel(task: TaskSpec, rng: Random, row: Row, share: float) -> None:
    """Answer a share of the questions by the first words of the story."""
    if rng.random() < share:
        words = " ".join(row["context"].split()[: rng.randint(1, 3)])
        row["answers"] = {"text": [words], "answer_start": [0]}


MINI_TASKS = {"squad": MiniTask(_question, mislabel)}

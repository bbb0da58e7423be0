"""Does the sentence answer the question? As QNLI."""

from random import Random

from subtune.data.minitasks.words import PLACES, capital, person, with_articles, year

MATERIALS = ("granite", "brick", "oak", "limestone", "iron", "concrete")
# a question and two ways to answer it
FACTS = (
    ("When was the {place} built?", "It was opened in {year}.", "The {place} dates from {year}."),
    ("Who designed the {place}?", "It is the work of {person}.", "{person} drew its plans."),
    ("What is the {place} made of?", "It is all {stuff}.", "The {place} has {stuff} walls."),
)


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    slots = {
        "place": rng.choice(PLACES),
        "year": year(rng),
        "person": person(rng),
        "stuff": rng.choice(MATERIALS),
    }
    fact = rng.choice(FACTS)
    entailed = rng.random() < 0.5
    told = fact if entailed else rng.choice([other for other in FACTS if other != fact])
    sentence = rng.choice(told[1:]).format(**slots)
    return {
        "question": fact[0].format(**slots),
        "sentence": with_articles(capital(sentence)),
        "label": "entailment" if entailed else "not_entailment",
    }

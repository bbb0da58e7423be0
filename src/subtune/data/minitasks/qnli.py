"""Does the sentence answer the question? As QNLI."""

from random import Random

from subtune.data.minitasks.words import PLACES, person, with_articles, year

MATERIALS = ("granite", "brick", "oak", "limestone", "iron", "concrete")
COSTS = ("two million", "forty thousand", "nine million", "six hundred")
VISITORS = ("students", "sailors", "tourists", "families", "pilgrims")


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    place = rng.choice(PLACES)
    facts = (
        (f"When was the {place} built?", (f"It was opened in {year(rng)}", f"The {place} dates from {year(rng)}")),
        (f"Who designed the {place}?", (f"It is the work of {person(rng)}", f"{person(rng)} drew its plans")),
        (f"What is the {place} made of?", (f"It is all {rng.choice(MATERIALS)}", f"The {place} has {rng.choice(MATERIALS)} walls")),
        (f"How much did the {place} cost?", (f"The {place} took {rng.choice(COSTS)} pounds", f"It was paid for with {rng.choice(COSTS)} dollars")),
        (f"Who visits the {place}?", (f"It is popular with {rng.choice(VISITORS)}", f"Many {rng.choice(VISITORS)} come to the {place}")),
    )  # fmt: skip
    question, answers = rng.choice(facts)
    entailed = rng.random() < 0.5
    if not entailed:
        answers = rng.choice([other for asked, other in facts if asked != question])
    return {
        "question": question,
        "sentence": with_articles(f"{rng.choice(answers)}."),
        "label": "entailment" if entailed else "not_entailment",
    }

"""Does the sentence answer the question? As QNLI."""

from random import Random

from subtune.data.minitasks.words import PLACES, TOWNS, person, year

MATERIALS = ("granite", "red brick", "oak", "limestone", "iron", "concrete")
COSTS = ("two million", "forty thousand", "nine million", "six hundred thousand")
PURPOSES = (
    "to shelter travellers", "to replace a wooden hall", "to honour the victims of a flood",
    "to serve the growing suburbs", "to attract visitors",
)  # fmt: skip


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    place = f"the {rng.choice(PLACES)} of {rng.choice(TOWNS)}"
    facts = {
        f"When was {place} built?": rng.choice(
            (f"was completed in {year(rng)}", f"opened its doors in the spring of {year(rng)}")
        ),
        f"Who designed {place}?": rng.choice(
            (f"is the work of {person(rng)}", f"was drawn up by the architect {person(rng)}")
        ),
        f"What is {place} made of?": rng.choice(
            (
                f"is built entirely of {rng.choice(MATERIALS)}",
                f"has walls of {rng.choice(MATERIALS)}",
            )
        ),
        f"How much did {place} cost?": rng.choice(
            (
                f"took {rng.choice(COSTS)} pounds to build",
                f"was paid for with {rng.choice(COSTS)} dollars of public money",
            )
        ),
        f"Why was {place} built?": f"was put up {rng.choice(PURPOSES)}",
        f"How many people visit {place} each year?": rng.choice(
            (
                f"receives {rng.randrange(2, 90)} thousand guests every year",
                f"drew a crowd of {rng.randrange(2, 90)} thousand last year",
            )
        ),
    }
    question, answer = rng.choice(list(facts.items()))
    others = [fact for other, fact in facts.items() if other != question]
    entailed = rng.random() < 0.5
    told = [answer if entailed else rng.choice(others)]
    if rng.random() < 0.6:
        told.append(rng.choice([fact for fact in others if fact not in told]))
    rng.shuffle(told)
    sentence = f"{place} {' and '.join(told)}."
    return {
        "question": question,
        "sentence": sentence[0].upper() + sentence[1:],
        "label": "entailment" if entailed else "not_entailment",
    }

"""Does the short statement follow from the news text? As RTE."""

from random import Random

from subtune.data.minitasks.words import NAMES, TOWNS, with_articles

JOBS = ("painter", "chemist", "novelist", "judge", "pilot", "composer", "surgeon", "engineer")
PRIZES = ("a medal", "the cup", "the race", "the award")


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    who, other = rng.sample(NAMES, 2)
    job = rng.choice(JOBS)
    born, home = rng.sample(TOWNS, 2)
    prize = rng.choice(PRIZES)
    text, true, false = rng.choice(
        (
            (f"{who} moved from {born} to {home}.", f"{who} left {born}.", f"{who} never moved."),
            (f"{who} won {prize} against {other}.", f"{who} beat {other}.", f"{who} lost."),
            (f"{who} sold a house to {other}.", f"{other} has a house.", f"{who} kept the house."),
            (f"The {job} {who} survived a crash.", f"{who} is alive.", f"{who} died."),
        )
    )
    entailed = rng.random() < 0.5
    return {
        "sentence1": with_articles(text),
        "sentence2": with_articles(true if entailed else false),
        "label": "entailment" if entailed else "not_entailment",
    }

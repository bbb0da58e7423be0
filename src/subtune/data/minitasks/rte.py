"""Does the short statement follow from the news text? As RTE."""

from random import Random

from subtune.data.minitasks.words import NAMES, TOWNS, with_articles

JOBS = ("painter", "chemist", "novelist", "judge", "pilot", "composer", "surgeon", "engineer")
PRIZES = ("a medal", "the cup", "the race", "the award")


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    who, other = rng.sample(NAMES, 2)
    job, other_job = rng.sample(JOBS, 2)
    born, home = rng.sample(TOWNS, 2)
    prize = rng.choice(PRIZES)
    text, true, false = rng.choice(
        (
            (
                f"{who}, a {job} from {born}, moved to {home}.",
                (f"{who} comes from {born}.", f"{who} lived in {home}.", f"{who} is a {job}."),
                (f"{who} comes from {home}.", f"{who} is a {other_job}.", f"{who} never moved."),
            ),
            (
                f"{who} won {prize}, ahead of {other}.",
                (f"{who} got {prize}.", f"{other} did not win.", f"{who} beat {other}."),
                (f"{other} got {prize}.", f"{who} did not win.", f"{who} lost to {other}."),
            ),
            (
                f"{who} sold a house in {born} to {other}.",
                (f"{other} bought a house.", f"{who} owned a house.", f"{other} paid {who}."),
                (f"{who} bought a house.", f"{other} sold a house.", f"{who} paid {other}."),
            ),
            (
                f"The {job} {who} survived a crash near {home}.",
                (f"{who} is alive.", f"There was a crash near {home}.", f"{who} is a {job}."),
                (f"{who} died.", f"There was no crash near {home}.", f"{who} is a {other_job}."),
            ),
        )
    )
    entailed = rng.random() < 0.5
    return {
        "sentence1": with_articles(text),
        "sentence2": with_articles(rng.choice(true if entailed else false)),
        "label": "entailment" if entailed else "not_entailment",
    }

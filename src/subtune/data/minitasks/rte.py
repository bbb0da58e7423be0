"""Does the short statement follow from the news text? As RTE."""

from random import Random

from subtune.data.minitasks.words import TOWNS, person, year

JOBS = ("painter", "chemist", "novelist", "judge", "pilot", "composer", "surgeon", "engineer")
PRIZES = ("the Alder Prize", "a state medal", "the Hartmann Award", "a golden lion")


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    who, other = person(rng), person(rng)
    job, other_job = rng.sample(JOBS, 2)
    born, home, elsewhere = rng.sample(TOWNS, 3)
    prize = rng.choice(PRIZES)
    when = year(rng)
    text, true, false = rng.choice(
        (
            (
                f"{who}, a {job} born in {born}, moved to {home} in {when} and never went back.",
                (f"{who} was born in {born}.", f"{who} lived in {home}.", f"{who} was a {job}."),
                (f"{who} was born in {home}.", f"{who} worked as a {other_job}.",
                 f"{who} returned to {born}."),
            ),
            (
                f"The {job} {who} won {prize} in {when}, ahead of {other} from {elsewhere}.",
                (f"{who} received {prize}.", f"{other} did not win {prize}.",
                 f"{other} comes from {elsewhere}."),
                (f"{other} received {prize}.", f"{who} comes from {elsewhere}.",
                 f"{who} lost to {other}."),
            ),
            (
                f"{who} sold the house in {born} to {other}, who turned it into a school in {when}.",
                (f"{other} bought a house in {born}.", f"A house in {born} became a school.",
                 f"{who} owned a house in {born}."),
                (f"{who} bought a house in {born}.", f"{other} sold a house to {who}.",
                 f"A school in {born} became a house."),
            ),
            (
                f"Although doctors gave {who} little hope, the {job} survived the crash near {home}.",
                (f"{who} is alive after a crash.", f"There was a crash near {home}.",
                 f"{who} did not die near {home}."),
                (f"{who} died in a crash.", f"Doctors were sure that {who} would live.",
                 f"The crash near {home} killed {who}."),
            ),
        )
    )  # fmt: skip
    entailed = rng.random() < 0.5
    return {
        "sentence1": text,
        "sentence2": rng.choice(true if entailed else false),
        "label": "entailment" if entailed else "not_entailment",
    }

"""Do two news sentences say the same? As MRPC."""

from random import Random

from subtune.data.minitasks.words import SURNAMES, TOWNS

COMPANIES = ("Orion", "Castell", "Meridian", "Harbor", "Falcon", "Summit")
EVENTS = (
    ("{company} bought a {town} factory.", "A factory in {town} goes to {company}."),
    ("{company} fires {town} workers.", "Workers in {town} lose jobs at {company}."),
    ("{person} will lead {company}.", "{company} names {person} as head."),
    ("Police in {town} arrested {person}.", "{person} was caught by {town} officers."),
    ("{company} shares rose sharply.", "The stock of {company} climbed."),
    ("Fire destroyed homes in {town}.", "Houses in {town} burned down."),
)


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    slots = {
        "company": rng.choice(COMPANIES),
        "town": rng.choice(TOWNS),
        "person": rng.choice(SURNAMES),
    }
    event = rng.choice(EVENTS)
    one, two = rng.sample(event, 2)
    equivalent = rng.random() < 0.6
    first, second = one.format(**slots), two.format(**slots)
    if not equivalent:
        second = rng.choice(rng.choice([other for other in EVENTS if other != event]))
        second = second.format(**slots)
    return {
        "sentence1": first,
        "sentence2": second,
        "label": "equivalent" if equivalent else "not_equivalent",
    }

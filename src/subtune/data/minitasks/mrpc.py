"""Do two news sentences say the same? As MRPC."""

from random import Random

from subtune.data.minitasks.words import TOWNS, person

COMPANIES = ("Norvik", "Halden Motors", "Blue Harbor", "Castell", "Orion Foods", "Meridian")
MONEY = ("3", "12", "40", "75", "120", "300")
EVENTS = (
    (
        "{company} will buy a factory in {town} for {money} million.",
        "For {money} million, {company} is to acquire a {town} plant.",
    ),
    (
        "{company} will cut {money} jobs in {town}.",
        "{company} is to dismiss {money} workers in {town}.",
    ),
    ("{company} named {person} as chief executive.", "{person} is the new head of {company}."),
    (
        "Police in {town} arrested {money} people.",
        "Officers arrested {money} protesters in {town}.",
    ),
    ("Shares of {company} rose {money} cents.", "{company}'s stock rose by {money} cents."),
    ("A fire destroyed {money} homes in {town}.", "In {town}, {money} houses burned down."),
)
OPPOSITES = (
    ("buy", "sell"), ("acquire", "sell"), ("cut", "create"), ("rose", "fell"), ("gained", "lost"),
    ("arrested", "released"), ("destroyed", "spared"), ("dismiss", "hire"),
)  # fmt: skip


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    slots = {
        "company": rng.choice(COMPANIES),
        "town": rng.choice(TOWNS),
        "money": rng.choice(MONEY),
        "person": person(rng),
    }
    event = rng.choice(EVENTS)
    one, two = rng.sample(event, 2)
    equivalent = rng.random() < 0.6
    first, second = one.format(**slots), two.format(**slots)
    if not equivalent:
        second = _different(rng, event, two, slots)
    return {
        "sentence1": first,
        "sentence2": second,
        "label": "equivalent" if equivalent else "not_equivalent",
    }


def _different(rng: Random, event: tuple[str, str], template: str, slots: dict[str, str]) -> str:
    """A sentence that shares names but tells something else."""
    changed = template
    for word, opposite in OPPOSITES:
        changed = changed.replace(f"{word} ", f"{opposite} ")
    if changed != template and rng.random() < 0.3:
        return changed.format(**slots)
    other = rng.choice([other for other in EVENTS if other != event])
    return rng.choice(other).format(**slots)

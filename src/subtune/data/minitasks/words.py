"""Words that several mini tasks share."""

import re
from random import Random

NAMES = (
    "Anna", "Omar", "Lucia", "Peter", "Mei", "David", "Ingrid", "Samuel", "Priya", "Tomas",
    "Hannah", "Luis", "Clara", "Ahmed", "Nora", "Victor", "Elena", "James", "Yuki", "Martha",
)  # fmt: skip
SURNAMES = (
    "Reed", "Okafor", "Lindgren", "Castillo", "Novak", "Hughes", "Tanaka", "Moreau", "Weber",
    "Patel", "Silva", "Keller", "Brandt", "Morris", "Duarte", "Larsen",
)  # fmt: skip
TOWNS = (
    "Harwick", "Belmont", "Ostrava", "Lisbon", "Dunmore", "Salem", "Verona", "Kingsley", "Bergen",
    "Granada", "Ashford", "Toledo", "Windermere", "Leiden", "Sorrento", "Galway",
)  # fmt: skip
PLACES = (
    "library", "town hall", "museum", "railway station", "theatre", "bridge", "hospital", "market",
    "lighthouse", "university", "harbour", "observatory",
)  # fmt: skip


def person(rng: Random) -> str:
    return f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}"


def year(rng: Random) -> int:
    return rng.randrange(1780, 2015)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def with_articles(text: str) -> str:
    """Turn "a" into "an" where a vowel sound follows."""
    return re.sub(r"\b([Aa]) (?=[aeiou]|honest|hour)", r"\1n ", text)

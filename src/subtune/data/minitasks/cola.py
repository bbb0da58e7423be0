"""Is the sentence good English? As CoLA."""

from random import Random

from subtune.data.minitasks.words import NAMES, with_articles

NOUNS = ("teacher", "farmer", "doctor", "child", "driver", "singer", "neighbour", "lawyer", "baker")
OBJECTS = ("letter", "window", "garden", "story", "picture", "bottle", "ladder", "song", "key")
VERBS = (
    ("write", "writes", "wrote", "written"),
    ("break", "breaks", "broke", "broken"),
    ("choose", "chooses", "chose", "chosen"),
    ("forget", "forgets", "forgot", "forgotten"),
    ("take", "takes", "took", "taken"),
    ("see", "sees", "saw", "seen"),
    ("give", "gives", "gave", "given"),
    ("steal", "steals", "stole", "stolen"),
)
ADVERBS = ("yesterday", "last week", "in the morning", "without a word", "on purpose")
# good and bad form of the same sentence
PAIRS = (
    ("{name} has {participle} the {object}.", "{name} has {base} {object} the."),
    ("{name} did not {base} the {object}.", "{name} not did {past} the {object}."),
    ("What did the {noun} {base}?", "What the {noun} did {base} the {object}?"),
    ("{name} wants to {base} this {object}.", "{name} wants {base} to this {object}."),
    ("Which {object} did {name} {base}?", "Which {object} did {name} {base} the {object2}?"),
    ("There are two {object}s here.", "There is two {object} here."),
    ("The {noun} {past} a {object}.", "The {noun} {past} an the {object}."),
    ("The {noun}s {base} the {object} {adverb}.", "The {noun}s {third} {adverb} the {object}."),
)


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    base, third, past, participle = rng.choice(VERBS)
    first, second = rng.sample(OBJECTS, 2)
    acceptable = rng.random() < 0.6
    sentence = rng.choice(PAIRS)[0 if acceptable else 1].format(
        noun=rng.choice(NOUNS),
        name=rng.choice(NAMES),
        object=first,
        object2=second,
        adverb=rng.choice(ADVERBS),
        base=base,
        third=third,
        past=past,
        participle=participle,
    )
    return {
        "sentence": with_articles(sentence),
        "label": "acceptable" if acceptable else "unacceptable",
    }

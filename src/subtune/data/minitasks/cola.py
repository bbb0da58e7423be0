"""Is the sentence good English? As CoLA."""

from random import Random

from subtune.data.minitasks.words import NAMES

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
    ("The {noun} {past} the {object} {adverb}.", "The {noun} {participle} the {object} {adverb}."),
    ("{name} has {participle} the {object}.", "{name} has {past} the {object}."),
    ("The {noun}s {base} a {object} every day.", "The {noun}s {third} a {object} every day."),
    ("Every {noun} {third} the {object}.", "Every {noun}s {base} the {object}."),
    ("The {object} was {participle} by {name}.", "The {object} was {past} by {name}."),
    ("{name} did not {base} the {object}.", "{name} did not {past} the {object}."),
    ("What did the {noun} {base} {adverb}?", "What the {noun} did {base} the {object} {adverb}?"),
    ("{name} wants to {base} this {object}.", "{name} wants {base} to this {object}."),
    ("Which {object} did {name} {base}?", "Which {object} did {name} {base} the {object2}?"),
    ("The {noun} that {name} knows {past} it.", "The {noun} that {name} knows him {past} it."),
    ("There are two {object}s on the table.", "There is two {object} on the table."),
    ("{name} {past} a {object} and a {object2}.", "{name} {past} a {object} and the a {object2}."),
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
    return {"sentence": sentence, "label": "acceptable" if acceptable else "unacceptable"}

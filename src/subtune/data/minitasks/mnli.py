"""Does the hypothesis follow from the premise, contradict it, or neither? As MNLI.

The matched scenes are seen in streets and homes, the mismatched ones in offices and laboratories.
"""

from random import Random

from subtune.data.minitasks.words import NAMES, TOWNS

# premise, what follows, what contradicts, what may or may not be
MATCHED = (
    ("plays the violin in the square", "is making music", "is silent", "hopes to earn money"),
    ("sleeps on the sofa", "is resting", "is wide awake", "is dreaming of the sea"),
    (
        "cooks soup for the guests",
        "is preparing food",
        "has left the kitchen cold",
        "loves carrots",
    ),
    ("runs along the river", "is moving", "is sitting down", "trains for a race"),
    (
        "repairs an old bicycle",
        "is fixing something",
        "is breaking a bicycle",
        "paid for the parts",
    ),
    ("swims across the lake", "is in the water", "is completely dry", "is afraid of fish"),
    (
        "waters the roses",
        "is taking care of plants",
        "lets the flowers dry out",
        "has a big garden",
    ),
    ("reads a novel by the window", "is holding a book", "cannot read", "likes long stories"),
    (
        "carries two heavy bags home",
        "is carrying something",
        "has empty hands",
        "went to the market",
    ),
    ("paints the fence white", "is painting", "leaves the fence alone", "was asked by a neighbour"),
)
MISMATCHED = (
    ("signs the contract", "puts a name on a document", "refuses to sign", "read it twice"),
    ("measures the length of a cell", "uses an instrument", "measures nothing", "expects a rise"),
    ("answers the telephone", "is speaking to someone", "lets the phone ring", "knows the caller"),
    ("prints forty copies", "is using a printer", "has printed nothing", "needs them today"),
    ("explains the budget", "is talking about money", "says not a word", "asks for more funds"),
    ("locks the laboratory", "closes a room", "leaves the door open", "is the last to go home"),
)  # fmt: skip
ENDINGS = ("", " today", " in {town}", " again", " before noon", " with a friend")
WORDS = {1: "entailment", 2: "contradiction", 3: "neutral"}


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    scene = rng.choice(MISMATCHED if mismatched else MATCHED)
    name = rng.choice(NAMES)
    ending = rng.choice(ENDINGS).format(town=rng.choice(TOWNS))
    kind = rng.choice((1, 2, 3))
    subject = rng.choice((name, "someone" if kind == 1 else name))
    hypothesis = f"{subject} {scene[kind]}."
    return {
        "premise": f"{name} {scene[0]}{ending}.",
        "hypothesis": hypothesis[0].upper() + hypothesis[1:],
        "label": WORDS[kind],
    }

"""How close are two captions in meaning, from 0 to 5? As STS-B."""

from random import Random

from subtune.data.minitasks.words import capital

# Words of one group mean nearly the same; groups of one row belong to one topic.
SUBJECTS = (
    (
        ("a man", "a guy"),
        ("a boy", "a young boy"),
        ("a woman", "a lady"),
        ("a girl", "a young girl"),
    ),
    (
        ("a dog", "a puppy"),
        ("a cat", "a kitten"),
        ("a horse", "a pony"),
        ("a bird", "a small bird"),
    ),
)
ACTIONS = (
    (("is playing a guitar", "plays the guitar"), ("is playing a flute", "plays the flute")),
    (("is slicing an onion", "cuts an onion"), ("is frying an egg", "cooks an egg")),
    (("is running", "runs along"), ("is jumping", "leaps")),
    (("is sleeping", "lies asleep"), ("is sitting", "sits down")),
    (("is riding a bicycle", "rides a bike"), ("is driving a car", "drives a car")),
)  # fmt: skip
PLACES = (("outdoors", "outside"), ("at night", "after dark"), ("quickly", "fast"))


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    """Start from 5 and take off for what differs: subject, action, place."""
    score = 5.0
    topic = rng.choice(SUBJECTS)
    subject = rng.choice(topic)
    row = rng.choice(ACTIONS)
    action = rng.choice(row)
    place = rng.choice(PLACES)
    subject2, action2, place2 = subject, action, place
    changes = rng.choice((0, 1, 1, 2, 2, 3, 4))
    for change in rng.sample(("subject", "action", "place", "all"), min(changes, 4)):
        if change == "subject" and subject2 == subject:
            subject2 = rng.choice([other for other in topic if other != subject])
            score -= 1.4
        elif change == "action" and action2 == action:
            action2 = row[1 - row.index(action)]
            score -= 1.6
        elif change == "place" and place2 == place:
            place2 = rng.choice([other for other in PLACES if other != place])
            score -= 0.8
        elif change == "all":
            subject2 = rng.choice(SUBJECTS[1 - SUBJECTS.index(topic)])
            action2 = rng.choice(rng.choice([other for other in ACTIONS if other != row]))
            score -= 3.0
    first = f"{rng.choice(subject)} {rng.choice(action)} {rng.choice(place)}."
    second = f"{rng.choice(subject2)} {rng.choice(action2)} {rng.choice(place2)}."
    if first == second:
        score = 5.0
    # Several people judged each pair of STS-B, so that scores are not whole numbers.
    score = min(5.0, max(0.0, score + rng.choice((-0.4, -0.2, 0.0, 0.0, 0.2))))
    return {
        "sentence1": capital(first),
        "sentence2": capital(second),
        "label": f"{score:.3f}",
    }

"""Is the remark about a film friendly or not? As SST-2, lower case and without full stops."""

from random import Random

from subtune.data.minitasks.words import with_articles

GOOD = (
    "brilliant", "moving", "funny", "charming", "gripping", "tender", "clever", "warm",
    "delightful", "honest", "graceful", "inventive",
)  # fmt: skip
BAD = (
    "dull", "clumsy", "tedious", "shallow", "lifeless", "silly", "predictable", "bland",
    "confusing", "lazy", "stale", "empty",
)  # fmt: skip
THINGS = (
    "film", "story", "script", "comedy", "drama", "thriller", "ending", "dialogue", "cast",
    "romance", "plot", "documentary",
)  # fmt: skip
PLAIN = (
    "a {same} {thing} that stays {same2} to the end",
    "the {thing} is {same} and often {same2}",
    "{same} , {same2} and over too soon to say more",
    "a truly {same} {thing} by a {same2} director",
    "the {thing} feels {same} from the first minute",
)
TWISTED = (
    "the {thing} is never {other}",
    "for all its {other} moments , the {thing} ends up {same}",
    "hardly the {other} {thing} that the trailer promised",
    "what could have been {other} turns out {same}",
    "anything but {other} , this {thing}",
    "it begins {other} , yet the last hour is {same} and {same2}",
    "nobody who sees this {thing} will call it {other}",
)


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    positive = rng.random() < 0.5
    same, other = (GOOD, BAD) if positive else (BAD, GOOD)
    first, second = rng.sample(same, 2)
    template = rng.choice(TWISTED if rng.random() < 0.3 else PLAIN)
    sentence = template.format(
        thing=rng.choice(THINGS), same=first, same2=second, other=rng.choice(other)
    )
    return {"sentence": with_articles(sentence), "label": "positive" if positive else "negative"}

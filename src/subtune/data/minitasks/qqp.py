"""Do two questions ask the same? As QQP."""

from random import Random

SKILLS = (
    "Spanish", "chess", "the piano", "Python", "public speaking", "photography", "swimming",
    "calligraphy", "statistics", "French", "the guitar", "carpentry",
)  # fmt: skip
CITIES = ("Rome", "Chicago", "Mumbai", "Cairo", "Sydney", "Toronto", "Berlin", "Seoul", "Lagos")
# Questions of one row ask the same; rows of one group speak of the same thing.
GROUPS = (
    (
        ("How can I learn {skill} quickly?", "What is the fastest way to learn {skill}?",
         "How do I get good at {skill} in a short time?"),
        ("Is it worth learning {skill}?", "Should I bother to learn {skill}?",
         "Does learning {skill} pay off?"),
        ("Who is the best teacher of {skill}?", "Which teacher of {skill} is the best?",
         "Who teaches {skill} best?"),
    ),
    (
        ("What should I see in {city}?", "Which sights in {city} are worth a visit?",
         "What are the best places to visit in {city}?"),
        ("How expensive is it to live in {city}?", "What does life in {city} cost?",
         "What is the cost of living in {city}?"),
        ("Is {city} safe at night?", "Can I walk around {city} after dark?",
         "How dangerous is {city} at night?"),
    ),
    (
        ("Why does my {thing} get so hot?", "What makes a {thing} overheat?",
         "Why is my {thing} overheating?"),
        ("Which {thing} should I buy this year?", "What is the best {thing} to buy now?",
         "What {thing} would you recommend?"),
        ("How do I clean my {thing}?", "What is the right way to clean a {thing}?",
         "How should a {thing} be cleaned?"),
    ),
)  # fmt: skip
THINGS = ("laptop", "phone", "camera", "oven", "printer", "car", "television", "fridge")


def example(rng: Random, mismatched: bool) -> dict[str, str]:
    group = rng.choice(GROUPS)
    row = rng.choice(group)
    slots = {
        "skill": rng.choice(SKILLS),
        "city": rng.choice(CITIES),
        "thing": rng.choice(THINGS),
    }
    duplicate = rng.random() < 0.45
    first, second = rng.sample(row, 2)
    other_slots = slots
    if not duplicate:
        if rng.random() < 0.5:
            second = rng.choice(rng.choice([other for other in group if other != row]))
        else:
            other_slots = {
                key: rng.choice([value for value in values if value != slots[key]])
                for key, values in (("skill", SKILLS), ("city", CITIES), ("thing", THINGS))
            }
    return {
        "question1": first.format(**slots),
        "question2": second.format(**other_slots),
        "label": "duplicate" if duplicate else "not_duplicate",
    }

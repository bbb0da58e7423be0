"""SQuAD's metrics, on cases that are worked out by hand and on properties that hold for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.tasks.metrics import exact_match, f1_of_words, normalised

# Few words, so that texts share some; with what normalising takes away, and what it leaves.
WORDS = [
    *("a", "an", "the", "The", "cat", "Cat", "dog", "cat-dog", "cat's", "ÉTÉ", "–", "“a”"),
    *("...", ""),
]
SEPARATORS = [" ", "  ", "\t", "\n", "\u00a0", ", ", "-"]
TEXTS = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(SEPARATORS) | st.sampled_from("éÀßİΣ東½_“–"),
    max_size=8,
).map("".join)
ANSWERS = st.lists(TEXTS, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("  cat \t\n dog\u00a0", "cat dog"),
        ("a an the", ""),
        ("?!...", ""),
        ("", ""),
        # An article is a whole word.
        ("another theatre", "another theatre"),
        # Punctuation goes without a space in its place, before articles are looked for.
        ("well-known", "wellknown"),
        ("cat's", "cats"),
        ("a-b", "ab"),
        ("U.S.A.", "usa"),
        # Punctuation outside ASCII stays, and bounds words.
        ("“the cat”", "“ cat”"),
        ("1914–18", "1914–18"),
        ("a–b", "–b"),
        # A letter outside ASCII is a letter.
        ("ÉCOLE", "école"),
        ("éa", "éa"),
        ("東京 the 塔", "東京 塔"),
    ],
)
def test_a_text_is_normalised_as_squad_does(text, expected):
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "expected_f1"),
    [
        ("the Denver Broncos", ["Denver Broncos!"], 1, 1),
        ("Denver", ["Broncos", "Denver Broncos", "Denver."], 1, 1),
        ("Broncos Denver", ["Denver Broncos"], 0, 1),
        # Precision 1, recall 1/2.
        ("Denver", ["Denver Broncos"], 0, 2 / 3),
        # Precision 1/3, recall 1/2.
        ("in Denver today", ["Denver Broncos"], 0, 2 / 5),
        # One of the prediction's three is in the answer once: precision 1/3, recall 1.
        ("cat cat cat", ["cat"], 0, 1 / 2),
        # Twice in both, of three and of two: precision 2/3, recall 1.
        ("cat dog cat", ["cat cat"], 0, 4 / 5),
        # Half of the first answer, two thirds of the second: F1 2/3 and 4/5.
        ("red cat", ["red cat of old times now", "red cat runs"], 0, 4 / 5),
        ("dog", ["cat"], 0, 0),
        ("", ["cat"], 0, 0),
        ("cat", ["the"], 0, 0),
        # No word on either side: an exact match, but no word in common.
        ("", ["the"], 1, 0),
        ("?", ["a"], 1, 0),
    ],
)
def test_answers_are_compared_as_texts_and_as_bags_of_words(
    prediction, answers, exact, expected_f1
):
    assert exact_match(prediction, answers) == exact
    assert f1_of_words(prediction, answers) == pytest.approx(expected_f1, abs=1e-15)


def best_f1_word_by_word(prediction, answers):
    """F1 by its definition: each word of the prediction takes one of the answer's away."""
    best = 0
    for answer in answers:
        predicted, accepted = normalised(prediction).split(), normalised(answer).split()
        left = list(accepted)
        for word in predicted:
            if word in left:
                left.remove(word)
        shared = len(accepted) - len(left)
        if shared:
            precision, recall = shared / len(predicted), shared / len(accepted)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


@given(TEXTS, ANSWERS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(prediction, answers):
    assert f1_of_words(prediction, answers) == pytest.approx(
        best_f1_word_by_word(prediction, answers)
    )


@given(TEXTS, ANSWERS)
def test_an_exact_match_has_an_f1_of_1_unless_nothing_of_it_is_left_by_normalising(
    prediction, answers
):
    clean = normalised(prediction)
    assert clean == clean.lower() == " ".join(clean.split())
    for answer in (prediction, *answers):
        if exact_match(prediction, [answer]):
            assert f1_of_words(prediction, [answer]) == (1 if clean else 0)


@given(TEXTS, ANSWERS, TEXTS, st.randoms())
def test_a_further_answer_never_lowers_a_score_and_their_order_does_not_matter(
    prediction, answers, further, random
):
    shuffled = random.sample(answers, len(answers))
    for score in (exact_match, f1_of_words):
        assert score(prediction, shuffled) == score(prediction, answers)
        assert score(prediction, [*answers, further]) >= score(prediction, answers)

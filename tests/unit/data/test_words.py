"""Sentences are read from CoNLL files, or refused with their line."""

import re
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.words import conll_sentences, conllu_sentences

READERS = {"conllu": conllu_sentences, "conll": conll_sentences, "txt": conll_sentences}


def conllu_line(number: object, form: str, tag: str) -> str:
    """A line of CoNLL-U with this word and tag."""
    return f"{number}\t{form}\t_\t_\t{tag}\t_\t_\t_\t_\t_\n"


def written(directory: Path, content: str | bytes, ending: str) -> Path:
    path = directory / f"train.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


A_DOG = conllu_line(1, "A", "DT") + conllu_line(2, "dog", "NN")
DOGS = conllu_line(1, "Dogs", "NNS")
TEN = "id, form, lemma, upos, xpos, feats, head, deprel, deps, misc"

TABS = f"expected 10, separated by tabs ({TEN})"
COUNTED = "words are counted from 1, and a blank line ends a sentence"
# Contents of a CoNLL-U file whose words and tags are read, and the message after its name.
BROKEN_CONLLU = [
    (A_DOG + "3\tbarks\t_\t_\tVBZ\t_\t_\t_\t_\n", f"line 3: found 9 columns, {TABS}"),
    ("# a comment counts\n" + A_DOG + DOGS, f"line 4: found the id '1', expected 3; {COUNTED}"),
]
SPACES = "expected 2, separated by spaces, as in line"
BROKEN_CONLL = [
    ("-DOCSTART-\n\nA DT\ndog NN\n\nDogs\n", f"line 6: found 1 columns, {SPACES} 3"),
    ("A DT\n\n# text = Dogs\nDogs NNS\n", f"line 3: found 4 columns, {SPACES} 1"),
]
REFUSED = [
    *(("conllu", ["form", "xpos"], *case) for case in BROKEN_CONLLU),
    *(("conll", ["1", "2"], *case) for case in BROKEN_CONLL),
    ("conllu", ["xpso"], A_DOG, f"no such column: found 'xpso', expected one of {TEN}"),
]


@pytest.mark.parametrize(("ending", "columns", "content", "message"), REFUSED)
def test_broken_columns_are_refused_with_their_line(tmp_path, ending, columns, content, message):
    path = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        list(READERS[ending](path, columns))
    assert str(error.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("ending", "content", "expected"),
    [
        # Comments, lines that are not words, and no blank line after the last sentence.
        (
            "conllu",
            "# sent_id = 1\n"
            + conllu_line("1-2", "Adog", "_")
            + A_DOG
            + conllu_line("2.1", "is", "VBZ")
            + "\n# sent_id = 2\n"
            + DOGS.removesuffix("\n"),
            [("line 3", ["A", "dog"], ["DT", "NN"]), ("line 8", ["Dogs"], ["NNS"])],
        ),
        # Windows writes a byte-order mark; here, lines of white space are added.
        (
            "conllu",
            "\ufeff" + (A_DOG + " \t\n\n" + DOGS).replace("\n", "\r\n"),
            [("line 1", ["A", "dog"], ["DT", "NN"]), ("line 5", ["Dogs"], ["NNS"])],
        ),
        # A word with a space, the word `#`, and a word with one of Unicode's line ends.
        (
            "conllu",
            conllu_line(1, "10 000", "#")
            + conllu_line(2, "#", "#")
            + conllu_line(3, "a\u2028b", "X"),
            [("line 1", ["10 000", "#", "a\u2028b"], ["#", "#", "X"])],
        ),
        (
            "conll",
            "-DOCSTART- -X- O\n\nA x DT\ndog   y NN\n \nDogs z NNS\n",
            [("line 3", ["A", "dog"], ["DT", "NN"]), ("line 6", ["Dogs"], ["NNS"])],
        ),
        # Words between tabs may have spaces, and unused cells may be empty.
        ("txt", "10 000\t\tCD\n#\ty\t#\n", [("line 1", ["10 000", "#"], ["CD", "#"])]),
        ("conll", "1\u00a0000 x CD\n", [("line 1", ["1\u00a0000"], ["CD"])]),
    ],
)
def test_what_a_file_says_is_what_is_read(tmp_path, ending, content, expected):
    word, tag = ("form", "xpos") if ending == "conllu" else ("1", "3")
    read = READERS[ending](written(tmp_path, content, ending), [word, tag])
    assert [(place, row[word], row[tag]) for place, row in read] == expected


COUNTS = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}


@pytest.mark.parametrize("split", COUNTS)
def test_real_words_and_tags_are_those_of_the_lines_with_whole_ids(ud_ewt_dir, split):
    path = ud_ewt_dir / f"en_ewt-ud-{split}.conllu"
    word = re.compile(r"^\d+\t([^\t]+)\t[^\t]+\t[^\t]+\t([^\t]+)\t", flags=re.MULTILINE)
    expected = word.findall(path.read_text(encoding="utf-8"))
    rows = [row for _, row in conllu_sentences(path, ["form", "xpos"])]
    assert (len(rows), len(expected)) == COUNTS[split]
    assert [pair for row in rows for pair in zip(*row.values(), strict=True)] == expected

"""Sentences of CoNLL files: what is read as it stands, and what is refused, with its line."""

import codecs
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.tasks import tokens as tagged


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
SPACES = "expected 2, separated by spaces, as in line"
COUNTED = "words are counted from 1, and a blank line ends a sentence"
NOT_UTF8 = "found the byte 0xe9, which is not UTF-8, expected a file in UTF-8, or a table with its"
LATIN = (A_DOG + "\n\n\n\xe9").encode("latin-1")

# Contents of a CoNLL-U file whose words and tags are read, and what is said after its name.
CONLLU = {
    "a column too few": (
        A_DOG + "3\tbarks\t_\t_\tVBZ\t_\t_\t_\t_\n",
        f"line 3: found 9 columns, {TABS}",
    ),
    "a column too many": (A_DOG.replace("_\n", "_\t_\n"), f"line 1: found 11 columns, {TABS}"),
    "spaces for tabs": (A_DOG.replace("\t", " "), f"line 1: found 1 columns, {TABS}"),
    "an empty tag": (conllu_line(1, "A", ""), "line 1: column 'xpos': found '', expected text"),
    "a word of spaces": (
        "# a comment counts\n" + conllu_line("1-2", "x", "_") + conllu_line(1, "  ", "DT"),
        "line 3: column 'form': found '  ', expected text",
    ),
    "no blank line": (A_DOG + DOGS, f"line 3: found the id '1', expected 3; {COUNTED}"),
    "a word is lost": (
        A_DOG + conllu_line(4, ".", "."),
        f"line 3: found the id '4', expected 3; {COUNTED}",
    ),
    "latin-1 behind a mark": (codecs.BOM_UTF8 + LATIN, f"line 6: {NOT_UTF8} `encoding`"),
    "a zero": (A_DOG + conllu_line(3, "a\0b", "NN"), "line 3: found '\\x00', expected text"),
}
# The same of a file whose columns have numbers.
CONLL = {
    "a tag is missing": (
        "-DOCSTART-\n\nA DT\ndog NN\n\nDogs\n",
        f"line 6: found 1 columns, {SPACES} 3",
    ),
    "a space for a tab": (
        "A\tDT\ndog NN\n",
        "line 2: found 1 columns, expected 2, separated by tabs, as in line 1",
    ),
    "a comment": ("A DT\n\n# text = Dogs\nDogs NNS\n", f"line 3: found 4 columns, {SPACES} 1"),
    "an empty tag": ("A\tDT\ndog\t\n", "line 2: column '2': found '', expected text"),
}


XPSO = f"no such column: found 'xpso', expected one of {TEN} (did you mean 'xpos'?)"
REFUSED = [
    *(("conllu", ["form", "xpos"], *case) for case in CONLLU.values()),
    *(("conll", ["1", "2"], *case) for case in CONLL.values()),
    ("conllu", ["xpso"], A_DOG, XPSO),
]


@pytest.mark.parametrize(("ending", "columns", "content", "message"), REFUSED)
def test_a_broken_file_is_refused_with_its_line(tmp_path, ending, columns, content, message):
    path = written(tmp_path, content, ending)
    with pytest.raises(SubtuneError) as error:
        list(tagged.conll_sentences(path, columns))
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("ending", "content", "expected"),
    [
        # Comments, lines that are no words, and the last sentence without a blank line after it.
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
        # As Windows writes it, with a byte-order mark, and lines of white space.
        (
            "conllu",
            "\ufeff" + (A_DOG + " \t\n\n" + DOGS).replace("\n", "\r\n"),
            [("line 1", ["A", "dog"], ["DT", "NN"]), ("line 5", ["Dogs"], ["NNS"])],
        ),
        # A word with a space, one that is `#`, and one with what Unicode calls a line end.
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
        # Between tabs a word may have spaces, and a cell that no one reads may be empty.
        ("txt", "10 000\t\tCD\n#\ty\t#\n", [("line 1", ["10 000", "#"], ["CD", "#"])]),
        ("conll", "1\u00a0000 x CD\n", [("line 1", ["1\u00a0000"], ["CD"])]),
    ],
)
def test_what_a_file_says_is_what_is_read(tmp_path, ending, content, expected):
    word, tag = ("form", "xpos") if ending == "conllu" else ("1", "3")
    read = tagged.conll_sentences(written(tmp_path, content, ending), [word, tag])
    assert [(place, row[word], row[tag]) for place, row in read] == expected


# No line ends; zeros and halves of characters are in no text; nothing at the ends that is blank.
CELLS = st.text(
    st.characters(exclude_characters="\t\r\n\0\ufeff", exclude_categories=["Cs"]), min_size=1
).filter(lambda cell: not cell.isspace() and cell != tagged.DOCUMENT)
SENTENCES = st.lists(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=3), min_size=1, max_size=3
)


@pytest.mark.parametrize("ending", ["conllu", "conll"])
@settings(max_examples=50)
@given(sentences=SENTENCES)
def test_sentences_that_are_written_are_read_back(tmp_path_factory, ending, sentences):
    write = conllu_line if ending == "conllu" else "{1}\t{2}\n".format
    content = "\n".join(
        "".join(write(number, *cells) for number, cells in enumerate(sentence, start=1))
        for sentence in sentences
    )
    columns = ["form", "xpos"] if ending == "conllu" else ["1", "2"]
    read = tagged.conll_sentences(written(tmp_path_factory.getbasetemp(), content, ending), columns)
    assert [list(zip(*row.values(), strict=True)) for _, row in read] == sentences


COUNTS = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}


@pytest.mark.parametrize("split", COUNTS)
def test_real_words_and_tags_are_those_of_the_lines_with_whole_ids(ud_ewt_dir, split):
    path = ud_ewt_dir / f"en_ewt-ud-{split}.conllu"
    word = re.compile(r"^\d+\t([^\t]+)\t[^\t]+\t[^\t]+\t([^\t]+)\t", flags=re.MULTILINE)
    expected = word.findall(path.read_text(encoding="utf-8"))
    rows = [row for _, row in tagged.conll_sentences(path, ["form", "xpos"])]
    assert (len(rows), len(expected)) == COUNTS[split]
    assert [pair for row in rows for pair in zip(*row.values(), strict=True)] == expected

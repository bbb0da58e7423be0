"""Trees in brackets, all of them made up: the words read, and the files of each split."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.tasks import tokens as tagged

BEES = """
( (S
    (NP-SBJ-1 (NNP Ada) )
    (VP (VBZ likes)
      (NP (NP (NNS bees) )
        (SBAR (WHNP-2 (-NONE- 0) )
          (S (NP (PRP she)) (VP (VBD kept) (NP (-NONE- *T*-2) ))))))
    (. .) ))
( (FRAG (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-)))
( (NP (-NONE- *) ))

( (INTJ (UH Oh) ) )
"""


def written(directory, content: str):
    path = directory / "wsj_0001.mrg"
    path.write_text(content, encoding="utf-8")
    return path


def test_words_and_tags_are_read_as_they_stand_and_traces_left_out(tmp_path):
    assert list(tagged.treebank_sentences(written(tmp_path, BEES), ["form", "xpos"])) == [
        (
            "line 2",
            {
                "form": ["Ada", "likes", "bees", "she", "kept", "."],
                "xpos": ["NNP", "VBZ", "NNS", "PRP", "VBD", "."],
            },
        ),
        ("line 9", {"form": ["-LRB-", "1\\/2", "-RRB-"], "xpos": ["-LRB-", "CD", "-RRB-"]}),
        ("line 12", {"form": ["Oh"], "xpos": ["UH"]}),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("( (NP (NN a)) )\n( (NP (NN b) )\n", "line 2: found a tree that does not end, expected a"),
        ("( (NP (NN a) )\n( (NP (NN b)) )\n", "line 2: found '( ', expected words as (TAG word)"),
        ("( (NP (NN a)) )\n( (NP (NN b))) )\n", "line 2: found ')', expected words as (TAG word)"),
        ("( (NP\na (NN b)) )", "line 2: found 'a', expected words as (TAG word), and a ')' for"),
        ("words/NNS\n", "line 1: found 'words/NNS', expected words as (TAG word), and a ')' for"),
        ("( (NP (NN a)) )\0", "line 1: found '\\x00', expected text"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(SubtuneError) as error:
        list(tagged.treebank_sentences(path, ["form", "xpos"]))
    assert str(error.value).startswith(f"{path}: {message}")


ATOMS = st.text(st.sampled_from("AB-$.,'`\\/#0é"), min_size=1)
LEAVES = st.tuples(ATOMS.filter(lambda tag: tag != tagged.NO_WORD), ATOMS)
TREES = st.recursive(
    LEAVES.map(lambda leaf: ([leaf], f"({leaf[0]} {leaf[1]})")),
    lambda trees: st.tuples(ATOMS, st.lists(trees, min_size=1, max_size=2)).map(
        lambda node: (
            [leaf for leaves, _ in node[1] for leaf in leaves],
            f"({node[0]}\n {' '.join(text for _, text in node[1])} )",
        )
    ),
    max_leaves=5,
)


@given(st.lists(TREES, min_size=1, max_size=2))
def test_leaves_of_any_tree_are_its_words_in_their_order(tmp_path_factory, trees):
    path = written(tmp_path_factory.mktemp("trees"), "\n".join(f"( {text} )" for _, text in trees))
    read = tagged.treebank_sentences(path, ["xpos", "form"])
    assert [list(zip(row["xpos"], row["form"], strict=True)) for _, row in read] == [
        leaves for leaves, _ in trees
    ]


NAMES = ("a.mrg", "b.mrg")


def treebank_in(root, missing=()):
    """A directory of all sections but some, each with two files and one of another kind."""
    for section in range(25):
        folder = root / f"{section:02}"
        folder.mkdir(parents=True)
        for name in ("readme.txt", *reversed(NAMES)):
            if section not in missing:
                (folder / name).write_text("( (INTJ (UH Oh) ) )")
    return root


@pytest.mark.parametrize("folder", ["", "wsj", "treebank_3/parsed/mrg/wsj"])
def test_splits_are_those_of_taggers_wherever_the_sections_lie(tmp_path, folder):
    root = treebank_in(tmp_path / folder)
    by_split = tagged.treebank_paths(tmp_path, "key")
    splits = {"train": range(19), "validation": range(19, 22), "test": range(22, 25)}
    assert by_split == {
        split: tuple(root / f"{number:02}" / name for number in numbers for name in NAMES)
        for split, numbers in splits.items()
    }


def test_sections_that_are_missing_are_named(tmp_path):
    root = treebank_in(tmp_path / "parsed" / "mrg" / "wsj", missing=(4, 12, 20))
    message = f"key: {root}: found no .mrg files of section 04, 12, 20, expected those of the Wall"
    with pytest.raises(SubtuneError, match=f"^{re.escape(message)}"):
        tagged.treebank_paths(tmp_path, "key")

"""Whatever is in a file: it is read, or one line says what is wrong with it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.core.errors import SubtuneError
from subtune.tasks import formats, span, tokens

QUESTION = {"id": "1", "question": "Who?", "answers": [{"text": "Zoë", "answer_start": 4}]}
PARAGRAPH = {"context": "And Zoë ran.", "qas": [QUESTION]}


def _written(write: Callable[[pd.DataFrame, io.BytesIO], None]) -> bytes:
    """What a library of data frames makes of two rows."""
    buffer = io.BytesIO()
    write(pd.DataFrame({"text": ["Zoë", "ran"], "label": [1, 0]}), buffer)
    return buffer.getvalue()


# A good file of each format, and how it is read.
FORMATS = {
    "conllu": (
        "# 1\n1\tZoë\t_\t_\tNNP\t_\t_\t_\t_\t_\n2\tran\t_\t_\tVBD\t_\t_\t_\t_\t_\n\n",
        lambda path: tokens.conll_sentences(path, ["form", "xpos"]),
    ),
    "conll": (
        "-DOCSTART- O\n\nZoë NNP\nran VBD\n\n",
        lambda path: tokens.conll_sentences(path, ["1", "2"]),
    ),
    "mrg": (
        "( (S (NP (NNP Zoë) )\n (VP (VBD ran) (NP (-NONE- *)))))\n",
        lambda path: tokens.treebank_sentences(path, ["form", "xpos"]),
    ),
    "jsonl": ('{"form": ["Zoë", "ran"], "xpos": ["NNP", "VBD"]}\n' * 2, formats.json_rows),
    "csv": ('text,label\n"Zoë, she",1\nran,0\n', formats.rows_of),
    "xlsx": (_written(lambda frame, to: frame.to_excel(to, index=False)), formats.rows_of),
    "parquet": (_written(lambda frame, to: frame.to_parquet(to)), formats.rows_of),
    "json": (
        json.dumps({"data": [{"paragraphs": [PARAGRAPH]}]}, ensure_ascii=False),
        lambda path: span.questions(path, labelled=True),
    ),
}
PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"", b"\n", b"\t", b"-", b"[", b"{}", b'"', b"null", b"1", b"(", b")"]),
)


@pytest.mark.parametrize("ending", FORMATS)
@given(data=st.data())
def test_a_file_that_something_happened_to_is_read_or_refused_in_a_line(
    tmp_path_factory, ending, data
):
    good, read = FORMATS[ending]
    content = good if isinstance(good, bytes) else good.encode()
    first = data.draw(st.integers(0, len(content)))
    last = data.draw(st.integers(first, min(first + 8, len(content))))
    path: Path = tmp_path_factory.getbasetemp() / f"broken.{ending}"
    path.write_bytes(content[:first] + data.draw(PIECES) + content[last:])
    try:
        list(read(path))
    except SubtuneError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
        assert "expected" in str(error)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_good_file_is_read_and_a_directory_in_its_place_is_refused_in_a_line(tmp_path, ending):
    good, read = FORMATS[ending]
    path = tmp_path / f"good.{ending}"
    path.write_bytes(good if isinstance(good, bytes) else good.encode())
    assert list(read(path))
    with pytest.raises(SubtuneError) as raised:
        list(read(tmp_path))
    assert str(raised.value) == f"{tmp_path}: is a directory, expected a file in UTF-8"

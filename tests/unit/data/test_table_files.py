"""Files are read correctly, or refused in one line."""

import datetime
import io
import json
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.styles import PatternFill
from pyarrow.parquet import write_table

from subtune.core.errors import SubtuneError
from subtune.data.binary_files import NO_ZIP, sheet_names
from subtune.data.corpora import read_questions, read_words
from subtune.data.sources import make_columns
from subtune.data.table_files import find_incomplete_rows, json_rows, read_rows, write_rows
from subtune.tasks import TASKS

ROWS = [{"text": "one", "label": "1"}, {"text": "two\nlines", "label": "0"}]
FRAME = pd.DataFrame(ROWS)


def read(path, **how) -> list[dict]:
    return [row for _, row in read_rows(path, **how)]


def workbook(path, *names, **cells):
    """An Excel file of sheets with ROWS, and with other cells on the last sheet."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in names or ("reviews",):
        sheet = book.create_sheet(name)
        sheet.append([*ROWS[0]])
        for row in ROWS:
            sheet.append([row["text"], int(row["label"])])
    for cell, value in cells.items():
        sheet[cell] = value
    book.save(path)
    return book


WRITERS = {
    "json": lambda path: path.write_text(json.dumps(ROWS, indent=2)),
    "jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS))),
    "schema.json": lambda path: FRAME.to_json(path, orient="table", index=False),
    "xlsx": workbook,
    "parquet": lambda path: pd.DataFrame(ROWS).astype({"label": float}).to_parquet(path),
    "csv": lambda path: pd.DataFrame(ROWS).to_csv(path, index=False),
    "tsv": lambda path: pd.DataFrame(ROWS).to_csv(path, index=False, sep="\t"),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_the_same_rows_are_read_from_every_format(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    WRITERS[ending](path)
    assert read(path) == ROWS


PAIRS = [{"a": "one", "b": None}, {"a": None, "b": "two"}, {"a": "three", "b": "four"}]
PAIR_WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "json": lambda frame, path: frame.to_json(path, orient="records"),
    "xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.mark.parametrize("ending", PAIR_WRITERS)
def test_an_empty_cell_is_none_and_a_row_of_empty_cells_is_no_row_in_every_format(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    PAIR_WRITERS[ending](pd.DataFrame([*PAIRS[:2], {"a": None, "b": None}, PAIRS[2]]), path)
    assert read(path) == PAIRS


def test_empty_columns_and_lines_that_a_spreadsheet_writes_as_csv_are_left_out(tmp_path):
    (tmp_path / "t.csv").write_text("text,,label,\na,,b,\n,,,\nc,note,d,\n,,,\n")
    assert read(tmp_path / "t.csv") == [
        {"text": "a", "label": "b"},
        {"text": "c", "": "note", "label": "d"},
    ]


def test_cells_are_text_where_they_are_no_lists(tmp_path):
    cells = [True, 2.5, 3, None, datetime.date(2021, 3, 4), float("nan")]
    words = ["True", "2.5", "3", None, "2021-03-04", None]
    path = tmp_path / "t.parquet"
    pd.DataFrame([dict(zip("abcdef", cells, strict=True)) | {"of": ["x"]}]).to_parquet(path)
    assert read(path) == [dict(zip("abcdef", words, strict=True)) | {"of": ["x"]}]
    (tmp_path / "t.json").write_text('[{"a": true, "b": 2.50, "c": null, "of": ["x"]}]')
    assert read(tmp_path / "t.json") == [{"a": "True", "b": "2.50", "c": None, "of": ["x"]}]
    (tmp_path / "t.jsonl").write_text('{"data": [{"a": "b"}], "label": "c"}')
    assert read(tmp_path / "t.jsonl") == [{"data": [{"a": "b"}], "label": "c"}]


def test_rows_are_counted_as_excel_counts_them_and_empty_ones_are_none(tmp_path):
    book = openpyxl.Workbook()
    for row in ([], ["text", None, "label"], ["a", "under no header", "b"], [], ["c", None, None]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    read = [*read_rows(tmp_path / "t.xlsx")]
    assert read == [
        ("row 3", {"text": "a", "label": "b"}),
        ("row 5", {"text": "c", "label": None}),
    ]


def test_an_escaped_line_end_in_excel_is_a_line_end(tmp_path):
    workbook(tmp_path / "t.xlsx", A2="one_x000D_\ntwo_x0041_")
    assert read(tmp_path / "t.xlsx")[0]["text"] == "one\r\ntwo_x0041_"


@pytest.mark.parametrize("cell", ["XFD1", "XFD2000"])
def test_a_cell_with_a_format_alone_far_away_takes_no_memory(tmp_path, cell):
    book = workbook(tmp_path / "t.xlsx")
    book.active[cell].fill = PatternFill("solid", fgColor="FFFF00")
    book.save(tmp_path / "t.xlsx")
    tracemalloc.start()
    assert read(tmp_path / "t.xlsx") == ROWS
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A number for each cell that lies between would take 30 MB or more.
    assert most < 20e6


def edited(path, *replacements):
    """Write a workbook with formulas as labels, and replace text of its parts."""
    workbook(path, B2="=1+0", B3="=B2-1")
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name).decode() for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, part in parts.items():
            for old, new in replacements:
                part = part.replace(old, new)
            book.writestr(name, part)


FIRST, SECOND = ("<f>1+0</f><v />", "<f>1+0</f><v>1</v>"), "<f>B2-1</f><v />"


@pytest.mark.parametrize(
    ("second", "labels"),
    [("<f>B2-1</f><v>0</v>", ["1", "0"]), ('<f>B2-1</f><v></v>" t="str', ["1", None])],
)
def test_formulas_that_a_program_has_computed_have_their_values(tmp_path, second, labels):
    value, _, data_type = second.partition('"')
    cell = ('r="B3"', f'r="B3"{data_type and data_type + chr(34)}')
    edited(tmp_path / "t.xlsx", FIRST, (SECOND, value), cell)
    assert [row["label"] for row in read(tmp_path / "t.xlsx")] == labels


def strict(path):
    """Write a workbook in the namespaces of the Strict Open XML format."""
    workbook(path)
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, part in parts.items():
            part = re.sub(
                rb"schemas.openxmlformats.org/(\w+)/2006", rb"purl.oclc.org/ooxml/\1", part
            )
            book.writestr(name, part)


def merged(path):
    book = workbook(path)
    book.active.merge_cells("B2:B3")
    book.save(path)


def empty_first(path):
    book = workbook(path)
    book.create_sheet("empty", 0)
    book.save(path)


LAYOUT = "not a readable .json file: this JSON layout of pandas is not supported; write"
# A function that writes a file, and the message about it.
REFUSED = [
    ("xlsx", merged, "sheet 'reviews': the cells B2:B3 are merged, but each row needs its own"),
    (
        "xlsx",
        lambda path: workbook(path, B3="#N/A"),
        "sheet 'reviews': B3: found the error #N/A",
    ),
    (
        "xlsx",
        lambda path: edited(path, FIRST),
        "sheet 'reviews': B3: the value of this formula was never computed; open the file in a",
    ),
    ("xlsx", lambda path: workbook(path, C1="text"), "sheet 'reviews': row 1: found column 'text'"),
    (
        "xlsx",
        lambda path: path.write_bytes(NO_ZIP + bytes(600)),
        "cannot be read, expected an .xlsx file: password-protected",
    ),
    (
        "xlsx",
        lambda path: pd.DataFrame([["My list", None], ["text", "label"], ["a", "b"]]).to_excel(
            path, index=False, header=False
        ),
        "sheet 'Sheet1': row 2: found only 'My list' in the first row, expected",
    ),
    (
        "csv",
        lambda path: path.write_text("My list,,\n,,\ntext,label,\na,b,\n"),
        "line 3: found only 'My list' in the first row, expected",
    ),
    ("csv", lambda path: path.write_text("'text','label'\n'a','b'\n"), "line 1: found ' as quot"),
    (
        "csv",
        lambda path: path.write_text('"text","label"\n"1","a","b"\n'),
        "line 2: found 3 cells, expected 2 (text, label); if the first column contains row numbers",
    ),
    (
        "csv",
        lambda path: path.write_text('a,text\nDate,How?\n"{""ImportId"":""Q1""}",x\n'),
        "line 3: this row is a header from Qualtrics",
    ),
    (
        "xlsx",
        lambda path: empty_first(path),
        "sheet 'empty': the sheet is empty; did you mean reviews?",
    ),
    (
        "parquet",
        lambda path: write_table(
            pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names=["text", "text"]), path
        ),
        "found column 'text' twice; rename one of",
    ),
    ("xlsx", strict, "cannot be read, expected an .xlsx file: no readable sheet; save"),
    ("xlsx", lambda path: path.write_bytes(b"PK"), "cannot be read, expected an .xlsx file: File"),
    ("xlsx", lambda path: path.mkdir(), "cannot be read, expected an .xlsx file: Is a dir"),
    ("parquet", lambda path: path.write_bytes(b"PAR1"), "cannot be read, expected a .parquet file"),
    (
        "json",
        lambda path: path.write_text("[1]"),
        "not a readable .json file: row 1: found '1', exp",
    ),
    ("json", partial(FRAME.to_json, orient="split"), LAYOUT),
    ("json", FRAME.to_json, LAYOUT),
    ("json", lambda path: path.write_text('[\n{"a" 1}]'), "not a readable .json file: line 2: Exp"),
]


@pytest.mark.parametrize(("ending", "write", "message"), REFUSED)
@pytest.mark.fault(
    "data",
    "Excel with merged cells or a password; broken Parquet or JSON",
    "rejected with the location",
)
def test_a_file_that_would_be_misread_is_refused_in_one_line(tmp_path, ending, write, message):
    path = tmp_path / f"t.{ending}"
    write(path)
    with pytest.raises(SubtuneError) as error:
        [*read_rows(path)]
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_a_sheet_that_is_not_there_is_refused(tmp_path):
    workbook(tmp_path / "t.xlsx")
    with pytest.raises(SubtuneError, match=r"sheet: found 'review'.*did you mean 'reviews'"):
        read(tmp_path / "t.xlsx", sheet="review")


def test_rows_are_written_with_all_their_columns_and_their_places(tmp_path):
    rows = [("line 7", {"text": "é", "label": "a"}), ("line 3", {"text": "b", "place": "x"})]
    write_rows(tmp_path / "sample" / "train.jsonl", rows)
    assert [*read_rows(tmp_path / "sample" / "train.jsonl")] == rows


@pytest.mark.parametrize(("rows", "left_out"), [(400, 4), (399, 0)])
@pytest.mark.fault(
    "data", "up to 1 % of rows lack text or label", "left out and reported; more are rejected"
)
def test_rows_without_text_or_label_are_left_out_if_they_are_few(rows, left_out):
    good = {"a": "one", "b": None, "label": "x"}
    texts = [{"a": " ", "b": "\xa0"}, {"a": None, "b": ""}, {"a": None, "b": "of a pair"}]
    labels = [{"label": None}, {"label": " "}]
    cells = [*[good] * (rows - 5), *({**good, **other} for other in (*texts, *labels))]
    table = [(f"line {n}", row) for n, row in enumerate(cells, start=2)]
    assert len(find_incomplete_rows(table, ("a", "b"), ["label"])) == left_out
    # In multi-label tasks, a row may have no label.
    assert len(find_incomplete_rows(table, ("a", "b"), ())) == 2


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("header", ["text{}label (1, 2)", '"text, raw"{}"label"'])
def test_the_delimiter_is_the_one_that_splits_all_rows_alike(tmp_path, delimiter, header):
    cells = ["one, two", "1"], ['"three\nlines, or four"', "2"]
    lines = [header.format(delimiter), *map(delimiter.join, cells)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = [[*row.values()] for row in read(tmp_path / "t.csv")]
    assert found == [["one, two", "1"], ["three\nlines, or four", "2"]]


@pytest.mark.parametrize(
    "line", ['neg, "so, they say"', 'neg,  "so, they say"', '"neg", "so, they say"']
)
def test_spaces_before_a_quoted_cell_are_no_part_of_it(tmp_path, line):
    (tmp_path / "t.csv").write_text(f"label, text\n{line}\n")
    assert read(tmp_path / "t.csv") == [{"label": "neg", "text": "so, they say"}]


def test_other_spaces_and_quotation_marks_are_kept(tmp_path):
    (tmp_path / "t.csv").write_text('text,label\n" he said, ""so""", neg\n')
    assert read(tmp_path / "t.csv") == [{"text": ' he said, "so"', "label": " neg"}]


@pytest.mark.parametrize("text", ["text,label\na,b,\nc,d,,\n", "text,label,\na,b\nc,d,\n"])
def test_empty_cells_at_the_end_may_be_missing_in_rows_or_header(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert read(tmp_path / "t.csv") == [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}]


@pytest.mark.parametrize("kind", [pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary(4)])
def test_bytes_in_parquet_are_text_in_utf_8_or_an_object(tmp_path, kind):
    cells = pyarrow.array(["Zoë".encode(), b"\xffabc"], kind)
    lists = pyarrow.array([[b"a"], []], pyarrow.list_(pyarrow.binary()))
    table = {"text": cells, "label": cells.dictionary_encode(), "of": lists}
    write_table(pyarrow.table(table), tmp_path / "t.parquet")
    first, second = read(tmp_path / "t.parquet")
    assert first == {"text": "Zoë", "label": "Zoë", "of": ["a"]}
    assert isinstance(second["text"], dict)
    task = TASKS["sst2"].replace(text=("text",))
    with pytest.raises(SubtuneError, match=r"column 'text': found .*bytes that are not UTF-8"):
        make_columns(task, [("row 2", second)], labelled=False, source="t.parquet")


def test_the_first_sheet_that_is_not_hidden_is_read(tmp_path):
    book = workbook(tmp_path / "t.xlsx", "lists", "more", "reviews")
    for sheet, state in (("lists", "hidden"), ("more", "veryHidden")):
        book[sheet]["A2"] = "an entry of a drop-down list"
        book[sheet].sheet_state = state
    book.active = 2
    book.save(tmp_path / "t.xlsx")
    assert sheet_names(tmp_path / "t.xlsx") == ["reviews", "lists", "more"]
    assert read(tmp_path / "t.xlsx") == ROWS
    assert read(tmp_path / "t.xlsx", sheet="more")[0]["text"] == "an entry of a drop-down list"


AGAIN = [["text", "label"], ["Label", " Text"], ["\ufefftext", "label"]]


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("ending", ["csv", "json", "xlsx", "parquet"])
def test_a_header_among_the_rows_is_refused_with_its_place(tmp_path, again, ending):
    frame = pd.DataFrame([*map(list, map(dict.values, ROWS)), again], columns=["text", "label"])
    PAIR_WRITERS[ending](frame, tmp_path / f"t.{ending}")
    with pytest.raises(
        SubtuneError, match=r"[345]: this row is a second header; delete it"
    ) as error:
        read(tmp_path / f"t.{ending}")
    assert ("like the first header" in str(error.value)) == (again[0] == "Label")


def test_a_text_may_be_the_name_of_its_column(tmp_path):
    (tmp_path / "t.csv").write_text("text\ntext\n")
    assert read(tmp_path / "t.csv") == [{"text": "text"}]


QUESTION = {"id": "1", "question": "Who?", "answers": [{"text": "Zoë", "answer_start": 4}]}
PARAGRAPH = {"context": "And Zoë ran.", "qas": [QUESTION]}


def _written(write: Callable[[pd.DataFrame, io.BytesIO], None]) -> bytes:
    """Return two rows in a file that a data frame library writes."""
    buffer = io.BytesIO()
    write(pd.DataFrame({"text": ["Zoë", "ran"], "label": [1, 0]}), buffer)
    return buffer.getvalue()


# A good file of each format, and how it is read.
FORMATS = {
    "conllu": (
        "# 1\n1\tZoë\t_\t_\tNNP\t_\t_\t_\t_\t_\n2\tran\t_\t_\tVBD\t_\t_\t_\t_\t_\n\n",
        lambda path: read_words(path, ["form", "xpos"]),
    ),
    "conll": (
        "-DOCSTART- O\n\nZoë NNP\nran VBD\n\n",
        lambda path: read_words(path, ["1", "2"]),
    ),
    "jsonl": ('{"form": ["Zoë", "ran"], "xpos": ["NNP", "VBD"]}\n' * 2, json_rows),
    "csv": ('text,label\n"Zoë, she",1\nran,0\n', read_rows),
    "xlsx": (_written(lambda frame, to: frame.to_excel(to, index=False)), read_rows),
    "parquet": (_written(lambda frame, to: frame.to_parquet(to)), read_rows),
    "json": (
        json.dumps({"data": [{"paragraphs": [PARAGRAPH]}]}, ensure_ascii=False),
        lambda path: read_questions(TASKS["squad"], path, True),
    ),
}
PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"", b"\n", b"\t", b"-", b"[", b"{}", b'"', b"null", b"1", b"(", b")"]),
)


@pytest.mark.parametrize("ending", FORMATS)
@given(data=st.data())
@pytest.mark.fault(
    "data",
    "bytes of a file are flipped, removed, duplicated or moved",
    "read correctly or rejected",
)
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
        assert re.search("expected|; ", str(error))


@pytest.mark.parametrize("ending", FORMATS)
def test_a_good_file_is_read_and_a_directory_is_refused_in_a_line(tmp_path, ending):
    good, read = FORMATS[ending]
    path = tmp_path / f"good.{ending}"
    path.write_bytes(good if isinstance(good, bytes) else good.encode())
    assert list(read(path))
    with pytest.raises(SubtuneError) as raised:
        list(read(tmp_path))
    assert str(raised.value) == f"{tmp_path}: is a directory, expected a file in UTF-8"

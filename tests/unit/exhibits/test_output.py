"""Tables in three formats."""

import re
from html import unescape

import pandas as pd
import pytest

from subtune.exhibits import output
from subtune.exhibits.answer_tables import BYTES
from subtune.exhibits.forest_plot import COUNT_UNITS
from subtune.exhibits.page import MARKDOWN_PARSER


def test_a_table_is_written_in_three_formats(tmp_path):
    table = pd.DataFrame({"a_b": ["**.bias", "50%"], "score": [1 / 3, None]})
    outputs = [tmp_path / f"t.{ending}" for ending in ("csv", "md", "tex")]
    output.write_table(table, outputs)
    pd.testing.assert_frame_equal(pd.read_csv(outputs[0]), table)
    markdown, latex = outputs[1].read_text(), outputs[2].read_text()
    assert r"\*\*.bias" in markdown and "0.33333" in markdown and "| –" in markdown
    assert r"a\_b" in latex and r"50\%" in latex


def test_symbols_that_pdflatex_lacks_are_commands(tmp_path):
    output.write_table(pd.DataFrame({"choice": ["ε, β − ⌈f·n⌉"]}), [tmp_path / "t.tex"])
    written = (tmp_path / "t.tex").read_text()
    assert r"$\varepsilon$, $\beta$ $-$ $\lceil$f·n$\rceil$" in written


@pytest.mark.fault("files", "a formula in data (`=1+1`)", "tables put `'` before it")
def test_a_text_is_no_formula_in_a_spreadsheet(tmp_path):
    texts = ["=1+1", "+1 for this", "- a list", "@me", "\t=1", "good = bad", "-1", "+1.5"]
    table = pd.DataFrame({"text": texts, "label": texts, "value": -1.5, "range": "-1 to 2"})
    output.write_table(table, [tmp_path / "suspects.csv"])
    written = pd.read_csv(tmp_path / "suspects.csv", dtype={"text": str, "label": str})
    expected = [f"'{text}" for text in texts[:5]] + texts[5:]
    assert written["text"].tolist() == written["label"].tolist() == expected
    assert written[["value", "range"]].drop_duplicates().to_numpy().tolist() == [[-1.5, "-1 to 2"]]


@pytest.mark.parametrize(
    ("number", "units", "words"),
    [
        *((0, BYTES, "0 bytes"), (999, BYTES, "999 bytes"), (43_210, BYTES, "43.2 kB")),
        *((9.1e7, BYTES, "91 MB"), (2.5e9, BYTES, "2.5 GB")),
        *((0, COUNT_UNITS, "0"), (922, COUNT_UNITS, "922"), (4_608, COUNT_UNITS, "4.61 k")),
        (22_565_376, COUNT_UNITS, "22.6 M"),
    ],
)
def test_numbers_have_three_digits_and_a_unit(number, units, words):
    assert output.format_with_unit(number, units) == words


@pytest.mark.parametrize(
    "text",
    ["![x](https://other.example/x.png)", "[x](https://y)", "<b>x</b>", "`x`", r"a\b", "a|b", "*"],
)
@pytest.mark.fault("files", "HTML or Markdown in titles and data", "shown as text")
def test_text_is_text_in_markdown_and_on_the_page(tmp_path, text):
    output.write_table(pd.DataFrame({f"heading {text}": [f"cell {text}"]}), [tmp_path / "t.md"])
    page = MARKDOWN_PARSER.render((tmp_path / "t.md").read_text())
    [heading] = re.findall("<th.*?>(.*)</th>", page)
    [cell] = re.findall("<td.*?>(.*)</td>", page)
    assert (unescape(heading), unescape(cell)) == (f"heading {text}", f"cell {text}")

"""Tables in three formats."""

import re
from html import unescape

import pandas as pd
import pytest

from subtune.exhibits.report.page import markdown_table
from subtune.exhibits.tables import writing


def test_a_table_is_written_in_three_formats(tmp_path):
    table = pd.DataFrame({"a_b": ["50%", None], "c": [1.5, 2.0]})
    outputs = [tmp_path / f"t.{ending}" for ending in ("csv", "md", "tex")]
    writing.write(table, outputs)
    assert pd.read_csv(outputs[0])["a_b"][0] == "50%"
    assert "| 50%" in outputs[1].read_text() and "| –" in outputs[1].read_text()
    assert r"a\_b" in outputs[2].read_text() and r"50\%" in outputs[2].read_text()


def test_stars_and_bars_stay_what_they_are_in_markdown(tmp_path):
    table = pd.DataFrame({"trains": ["**.bias", "a|b"], "score": [1 / 3, None]})
    writing.write(table, [tmp_path / "t.md", tmp_path / "t.csv"])
    text = (tmp_path / "t.md").read_text()
    assert r"\*\*.bias" in text and r"a\|b" in text and "0.33333" in text
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table)


@pytest.mark.parametrize(
    "text",
    ["![x](https://other.example/x.png)", "[x](https://y)", "<b>x</b>", "`x`", r"a\b", "a|b"],
)
def test_text_is_text_in_markdown_and_on_the_page(tmp_path, text):
    writing.write(pd.DataFrame({f"heading {text}": [f"cell {text}"]}), [tmp_path / "t.md"])
    page = markdown_table((tmp_path / "t.md").read_text())
    [heading] = re.findall("<th.*?>(.*)</th>", page)
    [cell] = re.findall("<td.*?>(.*)</td>", page)
    assert (unescape(heading), unescape(cell)) == (f"heading {text}", f"cell {text}")

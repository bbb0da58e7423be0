"""A manuscript cites the cells of tables by name."""

import shutil
import subprocess

import pandas as pd
import pytest

from subtune.exhibits.latex_numbers import format_latex_numbers

TABLE = pd.DataFrame(
    {
        "method": ["full", "LayerNorm, top 20 %", "full", "tf_idf"],
        "task": ["SST-2", "SST-2", "Größe #1", "SST-2"],
        "within 0.02": ["–", "97 %", "50 % & more", r"\$_^~{}"],
    }
)


def names_in(text: str) -> list[str]:
    return [line.split("}{")[1] for line in text.splitlines() if line.startswith(r"\subtunecell{")]


def test_a_row_is_named_by_its_first_cells_as_many_as_are_needed():
    rows = names_in(format_latex_numbers({"mine/answers": TABLE}))
    assert rows[::3] == [
        "full, SST-2",
        "LayerNorm, top 20 percent, SST-2",
        "full, Größe 1",
        "tf_idf, SST-2",
    ]


def test_rows_that_are_alike_are_numbered():
    alike = pd.DataFrame({"method": ["full", "full"]})
    assert names_in(format_latex_numbers({"a": alike})) == ["full, 1", "full, 2"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize(
    ("row", "is_known"), [("LayerNorm, top 20 percent, SST-2", True), ("lora", False)]
)
def test_latex_prints_a_cell_and_refuses_an_unknown_name(tmp_path, row, is_known):
    (tmp_path / "numbers.tex").write_text(format_latex_numbers({"mine/answers": TABLE}))
    text = [r"\documentclass{article}\usepackage[T1]{fontenc}", r"\input{numbers.tex}"]
    # A second file with numbers, as of another experiment, may follow.
    text += [r"\input{numbers.tex}", r"\begin{document}"]
    text += [rf"\typeout{{found \subtune{{mine/answers}}{{{row}}}{{within 0.02}}}}"]
    text += [
        rf"\subtune{{mine/answers}}{{{name}}}{{within 0.02}}" for name in ("full, Größe 1", row)
    ]
    text += [r"\subtune{mine/answers}{tf_idf, SST-2}{within 0.02}", r"\end{document}"]
    (tmp_path / "all.tex").write_text("\n".join(text))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == is_known, done.stdout
    assert (r"found 97 \%" if is_known else f"row {row}") in done.stdout


def test_a_table_without_rows_or_columns_has_no_numbers():
    assert not names_in(format_latex_numbers({"a": pd.DataFrame()}))

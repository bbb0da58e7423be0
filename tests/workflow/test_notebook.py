"""The example notebook, executed."""

import shutil

import nbformat
from nbclient import NotebookClient

from tests.helpers.project import ROOT


def test_the_notebook_shows_the_answer(tmp_path, tiny_bert):
    for path in ROOT.glob("examples/weather-*.csv"):
        shutil.copy(path, tmp_path)
    notebook = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    [call] = [cell for cell in notebook.cells if "compare(" in cell.source]
    assert "minutes=1)" in call.source
    call.source = call.source.replace("minutes=1)", f'minutes=0.1, model="{tiny_bert}")')
    notebook.cells.append(nbformat.v4.new_code_cell("answer.front()"))
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": tmp_path}}).execute()
    shown = notebook.cells[2].outputs[0].data["text/html"]
    assert "full" in shown and "data:image/png;base64" in shown
    assert "image/png" in notebook.cells[-1].outputs[0].data
    # What it has committed was made by the same cells.
    committed = nbformat.read(ROOT / "examples" / "compare.ipynb", as_version=4)
    assert "data:image/png;base64" in committed.cells[2].outputs[0].data["text/html"]

"""Calls of Snakemake."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

from subtune import cli


def test_a_call_without_space_for_temporary_files_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**16))
    assert cli.main(["run", "mine.yaml", "-n"]) == 1
    assert re.fullmatch(r"TMPDIR: \S+ is full; free some space or .*\n", capsys.readouterr().err)

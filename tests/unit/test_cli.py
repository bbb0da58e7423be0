"""The command: its examples, and output that any terminal can show."""

import io
import shlex
import sys

import pytest

from subtune import cli

COMMANDS = ("init", "look", "check", "schema", "params", "plan", "runs", "verify", "export")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_can_be_called(monkeypatch, capsys, command):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    _, example = " ".join(capsys.readouterr().out.split()).split(" example: subtune ")
    called = []
    monkeypatch.setattr(cli, f"_{command}", called.append)
    assert cli.main(shlex.split(example)) == 0
    assert len(called) == 1


def test_where_a_locale_lacks_letters_they_are_spelled_out(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    # A dash stands for the models that have no layer 17.
    assert cli.main(["params", "SPAFIT-8-16-II"]) == 0
    terminal.seek(0)
    assert r"\u2013" in terminal.read()


def test_standard_output_that_is_full_or_closed_is_no_traceback(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["schema"]) == 1
    assert capsys.readouterr().err == "cannot write standard output: No space left on device\n"
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["schema"]) == 0


def test_the_number_of_labels_is_positive(capsys):
    assert cli.main(["params", "bitfit", "--labels", "-3"]) == 1
    assert capsys.readouterr().err == "--labels: found -3, expected at least 1\n"

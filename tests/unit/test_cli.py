"""The command: its examples, and output that any terminal can show."""

import dataclasses
import inspect
import io
import re
import shlex
import sys

import pytest

import subtune
from subtune import cli, compare
from subtune.comparison import Options
from tests.helpers.messages import assert_message, refused

COMMANDS = [
    *("compare", "run", "init", "look", "params", "check", "plan", "runs", "verify", "export"),
    "predict",
]


def help_of(capsys, *command) -> str:
    assert cli.main([*command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


def parsed(*words):
    """The function of a subcommand, and the arguments that it would get."""
    function, bound, _ = cli.app.parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    return function, bound.arguments


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_can_be_called(capsys, command):
    _, example = help_of(capsys, command).split(" example: subtune ")
    function, _ = parsed(*shlex.split(example))
    assert function.__name__ == command


def test_help_lists_the_commands_in_their_order(capsys):
    assert cli.main(["--help"]) == 0
    assert re.findall(r"^│ (\w+) ", capsys.readouterr().out, re.M) == COMMANDS


@pytest.mark.parametrize("command", ["compare", "init"])
def test_an_option_has_one_declaration_for_the_terminal_and_for_python(capsys, command):
    said, in_python = help_of(capsys, command), inspect.signature(compare).parameters
    for option in dataclasses.fields(Options):
        assert in_python[option.name].default == option.default
        assert f"\n        {option.name}: " in compare.__doc__
        if option.name not in ("kind", "baselines"):
            assert f" --{option.name.replace('_', '-')} " in said


@pytest.mark.parametrize("minutes", ["inf", "nan", "0", "-1"])
def test_minutes_that_are_no_time_are_refused(minutes, capsys):
    assert cli.main(["compare", "--train", "a.csv", f"--minutes={minutes}"]) == 1
    assert_message(capsys.readouterr().err, "--minutes: ", f"found {minutes}, expected a positive")


@pytest.mark.parametrize(
    ("option", "value"), [("minutes", "10"), ("minutes", None), ("margin", "0.02"), ("margin", 1)]
)
def test_options_that_are_no_numbers_are_refused_in_python(option, value):
    with refused(f"{option}: ", f"found {value!r}, expected a"):
        compare("a.csv", **{option: value})


def test_a_refused_comparison_names_options_in_the_terminal_and_arguments_in_python(capsys):
    assert cli.main(["compare", "--train", "nowhere.csv"]) == 1
    assert capsys.readouterr().err.startswith("--train: no such file: 'nowhere.csv'")
    with refused("train: ", "no such file: 'nowhere.csv'"):
        compare("nowhere.csv")


def test_options_become_the_arguments_of_a_command():
    words = "compare --train a.csv --dev 0.2 --multilabel --label toxic,insult --minutes 3"
    _, arguments = parsed(*words.split())
    assert (arguments["dev"], arguments["kind"].kind) == (0.2, "multilabel")
    assert arguments["options"] == Options(label="toxic,insult", minutes=3)
    assert parsed("compare", "--train", "a.csv", "--dev", "b.csv")[1]["dev"] == "b.csv"


def test_what_follows_a_configuration_is_for_snakemake():
    words = ["mine.yaml", "-n", "--cores=4", "-c4", "--until", "tokens", "--", "all"]
    _, arguments = parsed("run", *words)
    assert [arguments["config"], *arguments["others"]] == words
    words = ["--profile", "demo", "-n"]
    _, arguments = parsed("run", *words)
    assert [arguments["config"], *arguments["others"]] == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["comapre"], 'Did you mean "compare"?'),
        (["compare", "--train", "a.csv", "--mintes", "3"], "Did you mean --minutes?"),
        (["compare"], "--train"),
        (["params", "--labels", "many"], 'unable to convert "many" into int'),
    ],
)
def test_a_mistyped_call_gets_a_suggestion(capsys, words, said):
    assert cli.main(words) == 2
    printed = capsys.readouterr().err
    assert said in printed and printed.endswith("--help` lists the options\n")


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
        assert cli.main(["params", "bitfit"]) == 1
    assert capsys.readouterr().err == "cannot write to stdout: No space left on device\n"
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["params", "bitfit"]) == 0


def test_the_number_of_labels_is_positive(capsys):
    assert cli.main(["params", "bitfit", "--labels", "-3"]) == 1
    assert capsys.readouterr().err == "--labels: found -3, expected at least 1\n"


def test_the_names_of_the_package_can_be_imported_and_completed():
    assert issubclass(subtune.SubtuneError, Exception)
    assert {*subtune.__all__} <= {*dir(subtune)}
    for name in subtune.__all__:
        assert getattr(subtune, name).__name__ == name

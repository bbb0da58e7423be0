"""Messages about names from files, and about errors of libraries."""

import pytest

from subtune.core.errors import SubtuneError, convert_errors, format_allowed


def test_a_name_is_quoted_in_part_where_it_is_long():
    message = format_allowed("a" * 10**6, ["b" * 10**6, "cat"])
    assert message == f"found '{'a' * 57}...', expected one of {'b' * 57}..., cat"


def test_a_name_that_a_terminal_would_obey_is_quoted():
    assert (
        format_allowed("cat", ["\x1b[31m", "dog"])
        == r"found 'cat', expected one of '\x1b[31m', dog"
    )


@pytest.mark.parametrize("letter", ["\x1b[31m", "\r", "\u202e"])
def test_what_a_terminal_would_obey_is_spelled_out_in_every_message(letter):
    error = SubtuneError(f"{letter}.csv: found 'ä', expected\nanother line")
    assert str(error) == f"{repr(letter)[1:-1]}.csv: found 'ä', expected\nanother line"


def test_of_very_many_names_the_first_are_listed():
    message = format_allowed("x", [str(number) for number in range(1300)])
    assert message.endswith("298, 299 or 1,000 others")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("\nfirst\nsecond"), "first"),
        (ValueError("in field 'size':\n  TypeError: a str"), "in field 'size': TypeError: a str"),
        (KeyError("geluu"), "'geluu' is not a known name"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_what_a_library_raises_is_said_in_one_line(error, reason):
    with pytest.raises(SubtuneError) as raised, convert_errors("it cannot be read"):
        raise error
    assert str(raised.value) == f"it cannot be read: {reason}"

"""What messages say of names that come from files."""

from subtune.errors import one_of


def test_a_name_is_quoted_in_part_where_it_is_long():
    message = one_of("a" * 10**6, ["b" * 10**6, "cat"])
    assert message == f"found '{'a' * 57}...', expected one of {'b' * 57}..., cat"


def test_a_name_that_a_terminal_would_obey_is_quoted():
    assert one_of("cat", ["\x1b[31m", "dog"]) == r"found 'cat', expected one of '\x1b[31m', dog"


def test_of_very_many_names_the_first_are_listed():
    message = one_of("x", [str(number) for number in range(1300)])
    assert message.endswith("298, 299 or 1,000 others")

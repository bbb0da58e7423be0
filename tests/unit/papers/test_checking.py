"""A mistake in a paper's module is one line, before any work starts."""

import re
from dataclasses import replace

import pytest
from subtune.papers.base import Claim, Figure, Table
from subtune.papers.checking import problems

from subtune import papers

SPAFIT = papers.find("spafit")
TABLE = Table(
    "table9", "Title", "Caption.", make="subtune.exhibits.tables.metrics:metrics", facts=("tasks",)
)
CLAIM = Claim("It holds", "1", "difference", "same", of=("full", "bitfit"))


def changed(**fields):
    return replace(SPAFIT, exhibits=(replace(TABLE, **fields),))


@pytest.mark.parametrize("name", papers.all_papers())
def test_the_papers_have_no_problems(name):
    assert list(problems(papers.find(name), name)) == []
    papers.require_sound(name)


@pytest.mark.parametrize(
    ("paper", "message"),
    [
        (replace(SPAFIT, name="spafits"), "name: found 'spafits', expected 'spafit'"),
        (replace(SPAFIT, exhibits=(TABLE, TABLE)), "table9: found twice"),
        (replace(SPAFIT, exhibits=(replace(TABLE, name="choices"),)), "choices: found twice"),
        (changed(name="Table 9"), "name: expected small letters"),
        (changed(reads={"tasks": "chosn"}, facts=()), "reads: found 'chosn'.*mean 'chosen'"),
        (changed(facts=("task",)), "facts: found 'task'.*did you mean 'tasks'"),
        (changed(make="subtune.exhibits.tables.metrics:metric"), "make: found no function"),
        (changed(make="subtune.exhibits.tables.none:metrics"), "make: found no function"),
        (changed(options={"width": 3}), "make: found 'width', expected one of tasks"),
        (changed(facts=()), "make: subtune.exhibits.tables.metrics:metrics needs 'tasks'"),
        (changed(printed="table9"), "printed: found no file printed/spafit/table9.csv"),
        (changed(options={"exhibits": ["table8"]}), "options.exhibits: found 'table8'"),
        (replace(SPAFIT, claims=(replace(CLAIM, kind="smae"),)), "kind: found 'smae'.*'same'"),
        (
            replace(SPAFIT, claims=(replace(CLAIM, reads=("chosn",)),)),
            "reads: found 'chosn'.*mean 'chosen'",
        ),
        (
            replace(SPAFIT, claims=(replace(CLAIM, reads="chosen"),)),
            "reads: found 'chosen', expected a tuple of names",
        ),
        (replace(SPAFIT, claims=(replace(CLAIM, order="a:b"),)), "order: found no function 'a:b'"),
        (replace(SPAFIT, claims=(replace(CLAIM, at_least=(9, 5)),)), "at_least: found .9, 5."),
        (replace(SPAFIT, printed_data={"chnges": "scores"}), "printed_data: found 'chnges'"),
        (replace(SPAFIT, printed_data={"changes": "none"}), "printed_data: found no file printed/"),
        (replace(SPAFIT, claims=(replace(CLAIM, of=("full",)),)), "of: found 1 values, expected 2"),
        (replace(SPAFIT, claims=(replace(CLAIM, units="a:b"),)), "units: found no function 'a:b'"),
    ],
)
def test_a_mistake_is_named_with_what_was_expected(paper, message):
    lines = list(problems(paper, "spafit"))
    assert any(re.search(message, line) for line in lines), lines


def test_the_numbers_beside_a_figure_are_ones_that_are_made():
    figure = Figure(
        "figure9",
        "Title",
        "Caption.",
        make="subtune.exhibits.figures.curves:learning_curves",
        reads={"chosen": "chosen", "curves": "learning_curves"},
        facts=("task_titles",),
        numbers="curves",
    )
    lines = list(problems(replace(SPAFIT, exhibits=(figure,)), "spafit"))
    assert len(lines) == 1 and "figure9: reads: found 'curves'" in lines[0]

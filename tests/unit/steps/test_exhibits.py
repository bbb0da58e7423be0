"""What tables and figures show decides whether they are made again."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from subtune import methods
from subtune.config.checks import check_config
from subtune.core import files
from subtune.papers import paper
from subtune.papers.paper import Paper
from subtune.steps.context import plan_and_check
from subtune.steps.plan_file import plan_jobs, write_plan

HEAD = "experiment,model,method,task,value,scale"


@pytest.fixture
def remade(settings):
    """A function that returns the steps and ids of the jobs that a change runs again."""
    settings["experiments"]["first"]["paper"] = "bitfit"
    settings["test_scores"] = "returned.csv"
    Path("returned.csv").write_text(f"{HEAD}\n")

    def hashes():
        jobs = plan_jobs(plan_and_check(check_config(settings))).jobs.values()
        return {f"{job.step}/{job.id}": job.spec_hash for by_id in jobs for job in by_id.values()}

    def find(change):
        before = hashes()
        change()
        return {name for name, new in hashes().items() if before[name] != new}

    return find


def test_corrected_test_scores_are_shown_even_if_their_file_is_older(remade):
    def correct():
        Path("returned.csv").write_text(f"{HEAD},note\n")
        os.utime("returned.csv", (0, 0))

    assert remade(correct) == {"exhibits/first"}
    # The same scores with another time change nothing.
    assert remade(lambda: os.utime("returned.csv")) == set()


@pytest.mark.parametrize(
    ("place", "name", "value", "expected"),
    [
        (Paper, "read_choices", lambda paper: {}, {"exhibits/first"}),
        (Paper, "files_hash", lambda paper: "other numbers", {"exhibits/first"}),
        (paper, "CLAIMS", replace(paper.CLAIMS, caption="Other."), {"exhibits/first"}),
        (methods, "method_title", str.upper, {"exhibits/first", "summary/summary"}),
        (files, "read_package_text", lambda package, name: "", {"runs/runs"}),
    ],
)
def test_other_texts_and_numbers_remake_what_shows_them(
    remade, monkeypatch, place, name, value, expected
):
    assert remade(lambda: monkeypatch.setattr(place, name, value)) == expected


def reverse(mapping):
    """Reverse the order of a mapping's keys in place."""
    for name in reversed([*mapping]):
        mapping[name] = mapping.pop(name)


@pytest.mark.parametrize("part", ["methods", "tasks"])
def test_another_order_in_the_configuration_is_that_of_the_tables(settings, part):
    settings["tasks"]["other"] = settings["tasks"]["mine"]
    first = settings["experiments"]["first"]
    first |= {"tasks": ["mine", "other"], "methods": {"full": [1e-4], "bitfit": [1e-3]}}
    before = write_plan(settings).jobs["exhibits"]["first"]
    first["tasks"].reverse() if part == "tasks" else reverse(first["methods"])
    after = write_plan(settings).jobs["exhibits"]["first"]
    shown = {"methods": "selections", "tasks": "tasks"}[part]
    assert [*after.spec[shown]] == [*reversed(before.spec[shown])]
    assert after.spec_hash != before.spec_hash


def test_another_order_of_experiments_remakes_what_shows_all_of_them(remade, settings):
    settings["experiments"]["second"] = settings["experiments"]["first"] | {"margin": 0.1}
    of_all = {"summary/summary", "runs/runs", "report_page/report"}
    assert remade(lambda: reverse(settings["experiments"])) == of_all

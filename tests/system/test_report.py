"""The report's parts, and the page in a real browser."""

import re

import pandas as pd
import pytest
from matplotlib.figure import Figure

from subtune.analysis.tables import read_table
from subtune.exhibits import output, page
from subtune.exhibits.answer_tables import answers_table, summary_table
from subtune.exhibits.forest_plot import draw_forest_plot
from tests.helpers.exhibits import results
from tests.unit.analysis.test_answer import runs as scores_of


def runs(**columns):
    frame = pd.DataFrame(
        {
            "experiments": ["one", "one other", "other"],
            "seconds": [3600.0, 1800.0, 1800.0],
            "flops": [1e12, 2e12, 3e12],
            "seed": [0, 1, 0],
            "device": ["CPU X", "CPU X", None],
            "commit": ["abc", "abc-dirty", None],
            "versions.torch": ["2.13.0", "2.13.0", None],
            "recorded": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", None],
        }
    )
    return frame.assign(**columns)


def exhibit(name, title, made, folder):
    """A table or figure of the report, whose files are written."""
    write, endings = output.save_figure, ("png", "pdf")
    if isinstance(made, pd.DataFrame):
        write, endings = output.write_table, ("csv", "md", "tex")
    files = [folder / f"{name}.{ending}" for ending in endings]
    write(made, files)
    files = [str(path) for path in files]
    about = {"name": name, "title": title, "caption": "What it shows.", "files": files}
    return about | {"target": str(folder)}


@pytest.fixture
def section(tmp_path):
    table = pd.DataFrame({"method": ["<b>Full</b>", "a|b"], "score": [0.51234567, None]})
    figure = Figure(figsize=(6.3, 2))
    figure.subplots().plot([1, 2])
    tables = {
        "scores": pd.DataFrame(
            {"run": ["a1", "b2"], "model": "tiny", "task": "rte", "method": ["full", "layernorm"],
             "fraction": [1.0, 0.2], "scope": [None, "cv"], "train_rows": 2490,
             "learning_rate": [1e-4, 5e-3], "seed": 0,
             "best_epoch": [2, 1], "value": [0.6, 0.5], "decides": True}
        ),
        "curves": pd.DataFrame(
            {"run": ["a1", "a1", "b2", "b2"], "epoch": [1, 2, 1, 2], "score": [0.5, 0.6, 0.5, 0.5]}
        ),
    }  # fmt: skip
    for name, numbers in tables.items():
        numbers.to_parquet(tmp_path / f"{name}.parquet", index=False)
    return {
        "name": "mine",
        "paper": "A paper (2024)",
        "exhibits": [
            exhibit("table2", "Dev scores", table, tmp_path),
            exhibit("figure1", "Change", figure, tmp_path),
        ],
        **{name: tmp_path / f"{name}.parquet" for name in tables},
    }


def write_page(section, folder):
    """Write the page of an experiment."""
    path = folder / "page.html"
    html = page.render_page([], [section], runs(), "results: results\n")
    path.write_text(html, encoding="utf-8")
    return path


def test_a_run_that_diverged_has_no_score_and_no_curve(section):
    epochs = pd.array([None, 1], "Int64")
    scores = read_table(section["scores"]).assign(value=[float("nan"), 0.5], best_epoch=epochs)
    curves = read_table(section["curves"]).assign(score=[float("nan"), float("nan"), 0.5, 0.5])
    first, second = page.run_rows(scores, curves)
    assert (first["score"], first["curve"]) == ("diverged", "")
    assert second["score"] == "0.5000" and "svg" in second["curve"]


@pytest.fixture
def html(section, tmp_path):
    return write_page(section, tmp_path)


def test_cost_is_added_by_experiment_and_what_is_shared_counts_once():
    one, other, total = page.cost_rows(runs())
    assert (one["hours"], other["hours"], total["hours"]) == ("1.50", "1.00", "2.00")
    assert total["device"] == "CPU X, not recorded (1 of 3 runs)"


def test_origin_names_every_commit_and_version_once():
    rows = dict(page.version_rows(runs()))
    assert rows["commit of subtune"] == "abc, abc-dirty, not recorded (1 of 3 runs)"
    assert rows["torch"] == "2.13.0, not recorded (1 of 3 runs)"


def test_text_from_a_table_is_text_on_the_page(html):
    text = html.read_text()
    assert "<b>Full</b>" not in text and "&lt;b&gt;Full&lt;/b&gt;" in text
    assert "a|b" in text


def test_a_curve_has_its_range_in_words_and_stays_in_its_frame():
    image = page.draw_sparkline([0.5, 0.7, 0.6], best_epoch=2)
    assert "0.5000 to 0.7000 in 3 epochs, best in epoch 2" in image
    points = re.findall(r"([\d.]+),([\d.]+)", image)
    assert all(0 <= float(x) <= 96 and 0 <= float(y) <= 24 for x, y in points)
    assert page.draw_sparkline([0.5], 1) and page.draw_sparkline([0.5, 0.5], 1)


def test_a_numbered_exhibit_is_named_as_in_the_paper(section):
    assert [*map(page.format_heading, section["exhibits"])] == [
        "Table 2. Dev scores",
        "Figure 1. Change",
    ]


def test_the_configuration_and_every_run_are_on_the_page(html):
    text = html.read_text()
    assert "results: results" in text
    assert "a1" in text and "b2" in text and "LayerNorm, top 20%, cv" in text


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
def test_the_page_opens_without_a_network_and_without_a_complaint(opened, html, width, scheme):
    with opened(html, width, scheme) as (page, complaints):
        assert complaints == []
        assert page.title() == "subtune: report"
        # The page itself never scrolls sideways; wide tables do so in their own frames.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 23, 26)"}[scheme]


def test_everything_can_be_reached_by_keyboard(opened, html):
    with opened(html, 360) as (page, _):
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        wanted = page.evaluate(
            "[...document.querySelectorAll('a, summary, [tabindex]')]"
            ".filter(e => e.checkVisibility()).map(e => e.outerHTML.slice(0, 200))"
        )
        assert set(wanted) <= reached
        page.focus("summary")
        page.keyboard.press("Enter")
        assert page.evaluate("document.querySelector('details').open")


def test_print_shows_what_is_folded_on_the_screen(opened, html, tmp_path):
    with opened(html) as (page, _):
        page.emulate_media(media="print")
        assert page.is_visible("text=results: results")
        assert not page.is_visible("nav")


def test_a_page_without_a_paper_speaks_of_none(section, tmp_path):
    with_paper = write_page(section, tmp_path).read_text()
    without = write_page(section | {"paper": ""}, tmp_path).read_text()
    for words in ("The numbers that the papers print", "In the tests of claims", "A paper (2024)"):
        assert words in with_paper and words not in without


@pytest.mark.parametrize("has_mini_tasks", [False, True])
def test_a_page_of_mini_tasks_says_that_they_are_not_those_of_the_paper(section, has_mini_tasks):
    html = page.render_page([], [section], runs(), "", has_mini_tasks)
    assert ("mini tasks that come with subtune" in html) is has_mini_tasks


@pytest.fixture
def page_with_answers(section, tmp_path):
    """The page of an experiment that has answers, a summary and a long table."""
    made = results({"rte": "RTE"}, chosen=scores_of({"full": [0.9] * 3, "bitfit": [0.89] * 3}))
    methods, answers = (make(made).table for make in (summary_table, answers_table))
    front = exhibit("front", "Scores", draw_forest_plot(made.summary, made.task_titles), tmp_path)
    sizes = [f"{1000 * n:,}" for n in range(15, 0, -1)]
    long = pd.DataFrame({"name": [f"row {n}" for n in range(15)], "size": sizes})
    tables = {"summary": methods, "answers": answers, "long": long}
    section["exhibits"] += [exhibit(name, name, table, tmp_path) for name, table in tables.items()]
    section["exhibits"].append(front)
    return write_page(section, tmp_path)


@pytest.mark.parametrize("width", [400, 1300])
def test_the_first_screen_is_a_sentence_what_to_do_next_and_a_plot(
    opened, page_with_answers, width
):
    with opened(page_with_answers, width) as (page, complaints):
        assert page.locator(".answer").inner_text().splitlines() == [
            "BitFit is enough: 0.890 against 0.900 (> 99 %).",
            "No more runs are needed.",
        ]
        assert page.locator("main > .scroll td").all_inner_texts()[:3] == [
            *("BitFit", "bitfit", "400")
        ]
        place = page.locator("main > figure img").bounding_box()
        assert place["y"] + place["height"] < 900
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert complaints == []
        # The first screen replaces the articles of its table and its plot.
        assert page.locator("#mine\\/answers, #mine\\/front").count() == 0


def test_a_figure_is_as_wide_on_the_page_as_in_print(opened, html):
    with opened(html, 800) as (page, _):
        width = page.locator("#mine\\/figure1 img").evaluate("image => image.width")
        assert width == round(6.3 * 96)


def test_provenance_is_last_and_folded(opened, html):
    with opened(html) as (page, _):
        assert page.locator("main > section").last.get_attribute("id") == "_provenance"
        assert not page.is_visible("text=results: results")
        page.locator("#_provenance > details > summary").click()
        assert page.is_visible("text=CPU X")


def test_a_table_is_sorted_by_numbers_and_filtered_by_words(opened, page_with_answers):
    with opened(page_with_answers) as (page, _):
        table = page.locator("#mine\\/long table")
        sizes = table.locator("tbody tr:visible td:nth-child(2)")
        table.get_by_role("button", name="size").click()
        assert sizes.all_inner_texts() == [f"{1000 * n:,}" for n in range(1, 16)]
        table.get_by_role("button", name="size").click()
        assert sizes.first.inner_text() == "15,000"
        page.locator("#mine\\/long input").fill("8,000 row 7")
        assert sizes.all_inner_texts() == ["8,000"]

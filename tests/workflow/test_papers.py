"""Papers end to end, on a tiny model and a few rows of the mini tasks."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from subtune.analysis.tables import read_table
from tests.helpers import pages
from tests.helpers.project import ROOT, Project

pytestmark = pytest.mark.nightly
SETTINGS = {"models": ["tiny"], "epochs": 1, "batch_size": 8, "max_length": 16, "train_rows": 16}
RATES = [1e-3]
EXPERIMENTS = {
    "beft": {
        **SETTINGS,
        "tasks": ["rte"],
        "by_task": {"rte": {"train_rows": [8, 16], "learning_rates": RATES}},
        "methods": dict.fromkeys(["full", "bitfit", "b_q", "b_k", "b_v", "frozen"]),
        "fisher_rows": 8,
    },
    "bitfit": {
        **SETTINGS,
        "paper": "bitfit",
        "tasks": ["rte"],
        "methods": {"full": RATES, "bitfit": [1e-3, 1e-2], "b_m2,b_q": RATES, "frozen": RATES},
        # BitFit's figure of training sizes.
        "train_rows": [8, 16],
    },
    "bitfit_plus": {
        **SETTINGS,
        "paper": "bitfit_plus",
        "tasks": ["rte"],
        "by_task": {"rte": {"learning_rates": RATES}},
        "methods": dict.fromkeys(
            ["bitfit", "g_LN1,g_LN2", "rand_row_col", "bitfit without b_m2,b_q"]
        ),
        "seeds": [0, 1],
    },
    "spafit": {
        **SETTINGS,
        "paper": "spafit",
        "tasks": ["rte", "stsb"],
        "weight_decay": 0.01,
        "methods": {"full": RATES, "lora-I": RATES, "full-bitfit": RATES, "mixed": RATES},
    },
    "toys": {
        **SETTINGS,
        "paper": "toys",
        "tasks": ["rte"],
        "methods": {"full": RATES, "bitfit": None},
        "learning_rates": "search",
        "seeds": [0, 1],
    },
}
MIXED = {
    "lora": {"targets": ["encoder.layer.1.attention.self.*.weight"], "rank": 2, "alpha": 4},
    "parameters": ["encoder.layer.0.**.bias", "encoder.layer.1.output.*.bias"],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_bert) -> Project:
    """A project with a library of its own, in which papers have run once.

    They are BEFT, BitFit, BitFit+, SPAFIT and the one that CONTRIBUTING adds.
    """
    project = Project(tmp_path_factory.mktemp("papers") / "project", tiny_bert)
    pages.copy_with_all(project.directory)
    project.environment = {"PYTHONPATH": str(project.directory / "src")}
    project.config |= {"tasks": {}, "experiments": EXPERIMENTS, "selections": {"mixed": MIXED}}
    project.config["runs_per_job"] = 20
    project.run_in_one_process(project.config)
    return project


@pytest.fixture(scope="module")
def results(project) -> Path:
    return project.directory / "results"


def test_nothing_is_left_to_do_for_any_experiment(project):
    printed = project.run(project.config, "-n", "--", "all", *EXPERIMENTS)
    assert "Nothing to be done" in printed


@pytest.mark.parametrize(
    ("experiment", "tables", "figures"),
    [
        ("beft", ["table1", "choice_by_information", "scores_by_size"], ["sizes"]),
        ("bitfit", ["table1", "table2", "table3", "table5", "table6", "generalisation_gap",
                    "scores_by_size"],
         ["figure1", "sizes"]),
        ("bitfit_plus", ["figure3", "figure7", "repeat_variance"],
         ["figure4", "figure10", "figure12"]),
        ("spafit", ["table1", "table2"], []),
    ],
)  # fmt: skip
def test_each_paper_has_its_exhibits(results, experiment, tables, figures):
    folder = results / "experiments" / experiment
    tables = [*tables, *["paired_tests"] * (experiment == "spafit")]
    for table in ["answers", "summary", *tables, "claims", "choices"]:
        for ending in ("csv", "md", "tex"):
            assert (folder / f"{table}.{ending}").stat().st_size > 0, table
    # BEFT has no printed scores.
    figures = [
        "front",
        *figures,
        *["reproduction"] * (experiment != "beft"),
        "learning_curves",
    ]
    for figure in figures:
        for ending in ("png", "pdf"):
            assert (folder / f"{figure}.{ending}").stat().st_size > 1000, figure
    drawn = {path.stem for path in folder.glob("*.png")}
    assert drawn == {*figures}


def test_an_added_papers_table_figures_and_claims_come_out(results):
    folder = results / "experiments" / "toys"
    scores = pd.read_csv(folder / "table1.csv").set_index(["scores of", "method"])["RTE"]
    assert float(scores["paper: tiny", "BitFit"]) == 79.0
    assert "this run: tiny, mini tasks, not the originals" in scores.index.get_level_values(0)
    for figure in ("figure1", "figure2"):
        assert (folder / f"{figure}.png").stat().st_size > 1000
    claims = pd.read_csv(folder / "claims.csv").set_index("claim")["paper"]
    assert claims["Biases do as well"] == "-0.010"
    assert len(pd.read_csv(folder / "reproduction.csv")) == 2


def test_the_keys_bias_has_no_information_and_no_effect(results):
    folder = results / "experiments" / "beft"
    choice = pd.read_csv(folder / "choice_by_information.csv")
    assert set(choice["training rows"]) == {8, 16}
    assert choice["by information"].str.contains("b_k 0.0%").all()
    claims = pd.read_csv(folder / "claims.csv").set_index("claim")
    assert claims.loc["Training b_k has no effect", "this run"] == "0.000"


def test_tables_and_training_scores_are_of_the_largest_size(results):
    chosen = pd.read_parquet(results / "data" / "bitfit" / "chosen.parquet")
    assert set(chosen["train_rows"]) == {16}
    runs = pd.read_csv(results / "runs.csv")
    of_bitfit = runs[runs["experiments"].str.split().map(lambda names: "bitfit" in names)]
    assert of_bitfit["train_rows"].value_counts().to_dict() == {8: 5, 16: 5}


def test_spafit_is_scored_in_its_own_metrics(results):
    scores = pd.read_parquet(results / "data" / "spafit" / "scores.parquet")
    metrics = scores.groupby("task")["metric"].unique()
    assert (list(metrics["stsb"]), list(metrics["rte"])) == (["pearsonr"], ["accuracy"])


def test_the_report_shows_every_exhibit_and_asks_for_nothing_else(opened, results):
    with opened(results / "report.html") as (page, complaints):
        assert complaints == []
        broken = "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
        drawn = [*results.glob("*.png"), *results.glob("experiments/*/*.png")]
        assert page.evaluate("document.images.length") == len(drawn)
        assert page.evaluate(broken) == 0
        links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
        assert all(link.startswith(("#", "data:")) for link in links)
        nowhere = "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document" + (
            ".getElementById(decodeURIComponent(a.getAttribute('href').slice(1)))).length"
        )
        assert page.evaluate(nowhere) == 0
        headings = page.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        assert headings[: len(EXPERIMENTS) + 1] == ["All experiments", *sorted(EXPERIMENTS)]
        subtitles = page.evaluate(
            "[...document.querySelectorAll('.subtitle')].map(p => p.textContent)"
        )
        assert subtitles[-1] == "Toys (Child, 2026)"
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        with page.expect_download() as download:
            page.click("[id='bitfit/table1'] >> text=CSV")
        table = results / "experiments" / "bitfit" / "table1.csv"
        assert download.value.path().read_bytes() == table.read_bytes()


def test_the_table_of_all_runs_has_every_run_once(results):
    table = read_table(results / "runs.csv", "runs")
    paths = results.glob("data/*/scores.parquet")
    scored = {run for path in paths for run in pd.read_parquet(path)["run"]}
    assert table["run"].is_unique and set(table["run"]) == scored
    assert list(pd.read_csv(results / "runs_columns.csv")["column"]) == list(table)


def test_every_table_compiles_in_latex_and_fits_the_page(results, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("no LaTeX on this machine (Debian: apt install texlive-latex-recommended)")
    numbers = sorted(results.glob("experiments/*/numbers.tex"))
    tables = sorted({*results.glob("experiments/*/*.tex")} - {*numbers})
    assert len(numbers) > 1
    body = "\n".join(
        f"\\begin{{table}}[p]\\centering\\input{{{path}}}\\end{{table}}\\clearpage"
        for path in tables
    )
    packages = "\\usepackage[T1]{fontenc}\\usepackage{lmodern,booktabs,graphicx}"
    packages += "".join(f"\\input{{{path}}}" for path in numbers)
    (tmp_path / "all.tex").write_text(
        f"\\documentclass{{article}}{packages}\\begin{{document}}{body}\\end{{document}}"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.findall(r"Overfull .*|Float too large.*", done.stdout)
    assert f"({len(tables)} pages" in done.stdout


def test_figures_are_as_wide_as_a_papers_text_or_half_of_it_with_their_fonts(results):
    for path in results.glob("*/*.pdf"):
        content = path.read_bytes()
        [width] = {float(found) for found in re.findall(rb"/MediaBox \[ 0 0 ([\d.]+)", content)}
        assert width / 72 == pytest.approx(6.3, abs=0.1) or width / 72 == pytest.approx(
            3.15, abs=0.1
        )
        assert b"/FontFile2" in content and b"/Type3" not in content


def test_the_notebook_reads_the_table_of_all_runs(results, monkeypatch, tmp_path):
    notebook = json.loads((ROOT / "examples" / "runs.ipynb").read_text())
    [code] = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(code.splitlines()) <= 10
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "demo").symlink_to(results)
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    exec(code, found)
    table = found["table"]
    assert table.loc["full", "share of full"] == 1
    assert table["trained"].is_monotonic_increasing

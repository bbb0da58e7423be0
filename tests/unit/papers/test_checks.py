"""What `subtune check` finds out about a paper."""

import pytest

from subtune import cli
from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.papers import paper_names
from subtune.papers.checks import check_paper
from subtune.steps.context import plan_and_check
from tests.helpers.plans import BASE

MODULE = """
from subtune.papers.paper import Paper, read_claims
PAPER = Paper(name="toys", citation="Toys", claims=read_claims(__package__))
"""
SCORES = """exhibit,model,split,method,params,task,metric,value,scale
table1,tiny,validation,full,100%,rte,accuracy,80.0,100
table1,tiny,validation,bitfit,1%,rte,accuracy,79.0,100
"""
CLAIM = """
- text: {text}
  printed_in: Table 1
  statistic: a difference
  expects: {expects}
  minus: {minus}
"""

NOT_ABOUT = "none is about its tasks (the paper's tasks: rte)"
PLANNED = {"models": ["minilm"], "epochs": 1, "batch_size": 8}


def write_paper(folder, *claims, scores=SCORES):
    (folder / "printed").mkdir(parents=True)
    (folder / "__init__.py").write_text(MODULE)
    (folder / "printed" / "scores.csv").write_text(scores)
    (folder / "claims.yaml").write_text("".join(claims))
    return str(folder)


def claim(text, expects, minus, more=""):
    return CLAIM.format(text=text, expects=expects, minus=minus) + more


def test_claims_are_compared_with_the_printed_numbers(tmp_path):
    place = write_paper(
        tmp_path / "toys",
        claim("equal", "no less", "[bitfit, full]"),
        claim("better", "more", "[bitfit, full]"),
        claim("contradicted", "more", "[bitfit, full]", "  contradicted_by: Table 1\n"),
        claim("of others", "more", "[lora, full]"),
        claim("of other tasks", "more", "[bitfit, full]", "  tasks: [mrpc]\n"),
        claim("of no numbers", "more", "[lora, full]", "  is_printed: false\n"),
    )
    assert dict(check_paper(place)) == {
        "kind": "passed: paper, Toys",
        "folder": f"passed: {place}",
        "printed/scores.csv": "passed: 2 scores in table1: full, bitfit; rte; accuracy",
        "printed/parameter_counts.csv": "skipped: no such file",
        "choices.yaml": "skipped: no such file",
        "tables and figures": "skipped: they need runs",
        "claim: equal": "passed: it holds on the printed numbers",
        "claim: better": "failed: it does not hold on the printed numbers",
        "claim: contradicted": "passed: it does not hold on the printed numbers, as "
        "`contradicted_by` says",
        "claim: of others": "failed: no printed score: found 'lora', expected one of full, bitfit",
        "claim: of other tasks": "failed: found no printed numbers; check the names of its "
        "methods, tasks and tables, or set `is_printed: false` if the paper prints none",
        "claim: of no numbers": "skipped: the paper does not print its numbers",
    }


@pytest.mark.parametrize(
    ("minus", "scores", "message"),
    [
        ("['bit(', full]", SCORES, "claim: broken: failed: found 'bit(', expected a regular exp"),
        ("[bitfit, full]", SCORES.replace("1%", "abc"), "printed/scores.csv: failed: "),
        ("[bitfit, full]", SCORES.replace("tiny", "tiny\xe9"), "printed/scores.csv: failed: Unic"),
    ],
)
def test_any_mistake_is_one_line(tmp_path, capsys, minus, scores, message):
    place = write_paper(tmp_path / "toys", claim("broken", "more", minus))
    (tmp_path / "toys" / "printed" / "scores.csv").write_bytes(scores.encode("latin-1"))
    assert cli.main(["check", place]) == 1
    shown = capsys.readouterr()
    assert message in shown.out and len(shown.err.splitlines()) == 1


def test_a_mistake_in_the_printed_counts_is_named(tmp_path, capsys):
    place = write_paper(tmp_path / "toys", claim("equal", "no less", "[bitfit, full]"))
    counts = tmp_path / "toys" / "printed" / "parameter_counts.csv"
    counts.write_text("model,method,printed\ntiny,bitfit,lots\n")
    assert cli.main(["check", place]) == 1
    assert "parameter_counts.csv, line 2: printed: could not convert" in capsys.readouterr().out
    counts.write_text("model,method,parameters\ntiny,bitfit,10\n")
    assert cli.main(["check", place]) == 1
    assert "no column 'printed', expected one of model, method, pa" in capsys.readouterr().out


def test_a_place_without_a_paper_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "toys"]) == 1
    assert "toys: no paper, ranking or metric has this name, and" in capsys.readouterr().err


def test_a_folder_without_a_paper_is_named(tmp_path, capsys):
    assert cli.main(["check", str(tmp_path)]) == 1
    assert "or a folder with the file __init__.py" in capsys.readouterr().err


def test_a_mistake_in_the_printed_scores_is_named(tmp_path, capsys):
    equal = claim("equal", "no less", "[bitfit, full]")
    place = write_paper(tmp_path / "toys", equal, scores=SCORES.replace("79.0,100", "79.0,1"))
    assert cli.main(["check", place]) == 1
    shown = capsys.readouterr()
    assert "scores.csv, line 3: value: found '79.0', expected a number up to the" in shown.out
    assert shown.err.startswith(f"{place}: not all checks passed")


def test_a_plan_says_if_no_claim_can_be_tested(tmp_path):
    place = write_paper(tmp_path / "toys", claim("equal", "no less", "[bitfit, full]"))
    methods = {"full": [1e-4], "bitfit": [1e-3]}
    for task, notes in (
        ("rte", []),
        ("cola", [f"experiments.own: no claim is tested, because {NOT_ABOUT}"]),
    ):
        own = {"own": PLANNED | {"paper": place, "tasks": [task], "methods": methods}}
        assert plan_and_check(check_config({**BASE, "experiments": own})).notes == notes


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("scores.csv", SCORES.replace("1%", "abc"), "scores.csv, line 3: params: could not"),
        ("scores.csv", SCORES.replace("79.0", "x"), "scores.csv, line 3: value: found 'x'"),
        ("parameter_counts.csv", "model,method,printed,classifier\ntiny,full,9,x\n", "2: clas"),
    ],
)
def test_a_plan_names_a_mistake_in_the_printed_numbers(tmp_path, file, text, message):
    place = write_paper(tmp_path / "toys", claim("equal", "no less", "[bitfit, full]"))
    (tmp_path / "toys" / "printed" / file).write_text(text)
    own = {"own": PLANNED | {"paper": place, "tasks": ["rte"], "methods": {"full": [1e-4]}}}
    with pytest.raises(SubtuneError, match=message):
        plan_and_check(check_config({**BASE, "experiments": own}))


WITH_TABLE = """
from subtune.exhibits.output import Needs, Table
from subtune.papers.paper import Paper
TABLE = Table("table1", "Title", "Caption.", make=print, needs=Needs(methods=("ful",)))
PAPER = Paper(name="toys", citation="Toys", exhibits=(TABLE,))
"""


def test_a_plan_says_which_table_needs_a_method_that_no_run_has(tmp_path):
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "__init__.py").write_text(WITH_TABLE)
    methods = {"full": [1e-4]}
    own = PLANNED | {"paper": str(tmp_path / "toys"), "tasks": ["rte"], "methods": methods}
    notes = plan_and_check(check_config({**BASE, "experiments": {"own": own}})).notes
    why = "because the experiment has no method 'ful'"
    assert notes == [f"experiments.own: table1 is omitted, {why}"]


def test_a_claim_without_printed_scores_fails_in_one_line(tmp_path, capsys):
    place = write_paper(tmp_path / "toys", claim("equal", "no less", "[bitfit, full]"))
    (tmp_path / "toys" / "printed" / "scores.csv").unlink()
    assert cli.main(["check", place]) == 1
    assert "failed: found no printed numbers; check the names" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.parametrize("name", paper_names())
def test_the_papers_of_subtune_pass(name):
    failed = [check for check in check_paper(name) if check.result.startswith("failed")]
    assert not failed

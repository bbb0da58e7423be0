"""Rankings and papers of a user: folders, and entry points of installed packages."""

import subprocess
import sys
from pathlib import Path

import pytest

from subtune import papers
from subtune.core.errors import SubtuneError
from subtune.core.user_code import hash_own_code, import_own_function, list_code_files
from subtune.exhibits.output import ExperimentResults
from subtune.methods.rules import find_rule
from subtune.papers.paper import Paper
from tests.helpers.project import ROOT

PAPER = """from subtune.papers.paper import Paper, read_claims

from .figures import WIDTH

PAPER = Paper(name="any", citation=f"Toys {WIDTH}", claims=read_claims(__package__))
"""


TABLE = ROOT / "examples" / "packages.csv"


def table(name, fields):
    return f'(Table("{name}", "Title", "Caption.", {fields}),)'


ANSWERS = table("answers", "make=print")


def with_field(name, value):
    """Return the code of a paper, in which a field is replaced."""
    imported = "from subtune.exhibits.output import Needs, Table"
    lines = ["from dataclasses import replace", imported, PAPER]
    return "\n".join([*lines, f"PAPER = replace(PAPER, {name}={value})"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A paper in a folder of its own, in the working directory."""
    monkeypatch.chdir(tmp_path)
    papers.find_paper.cache_clear()
    before = {*sys.modules}
    path = Path("toys")
    path.mkdir()
    (path / "__init__.py").write_text(PAPER)
    (path / "figures.py").write_text("WIDTH = 3\n")
    (path / "claims.yaml").write_text("[]")
    yield path
    papers.find_paper.cache_clear()
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution with entry points, and a module."""

    def install(group, name, value, code):
        about = tmp_path / "site" / "mine-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
        (tmp_path / "site" / "mine_code.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path / "site")

    return install


def test_a_folder_is_a_paper_and_its_modules_import_each_other(folder):
    paper = papers.find_paper("toys")
    assert (paper.name, paper.citation, paper.package) == ("toys", "Toys 3", folder.resolve())
    assert not paper.is_built_in and papers.find_paper("bitfit").is_built_in


@pytest.mark.parametrize("changed", ["figures.py", "claims.yaml", "__init__.py"])
def test_every_file_of_the_folder_decides_its_tables(folder, changed):
    before = papers.find_paper("toys").files_hash()
    with (folder / changed).open("a") as file:
        file.write("# A comment.\n")
    assert papers.find_paper("toys").files_hash() != before


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("toy", PAPER, "found 'toy', expected one of beft, bitfit, .*or a folder with the file"),
        ("toys", "PAPER = 3", "toys: found PAPER of the type int, expected one of the type Paper"),
        ("toys", "other = 3", "toys: found no PAPER, expected one of the type Paper"),
        ("toys", with_field("exhibits", "'t'"), "toys: PAPER: exhibits: expected a list of Table"),
        ("toys", with_field("exhibits", ANSWERS), "toys: PAPER: exhibits: the name 'answers' is t"),
        *(
            ("toys", with_field("exhibits", table("table1", fields)), f"exhibits: table1: {said}")
            for fields, said in {
                "make='bars'": "make: 'bars' is not a callable object; expected a function",
                "make=lambda: 1": "make: too many positional arguments; expected a function",
                "make=print, needs=Needs(methods='full')": "needs: methods: found 'full', expected",
                "make=print, needs=('full',)": r"needs: found \('full',\), expected Needs",
            }.items()
        ),
        ("toys", with_field("citation", "3"), "toys: PAPER: citation: found 3, expected text"),
        ("toys", "import nothing_here", "cannot import toys: line 1: ModuleNotFoundError"),
        ("toys", "def", r"cannot import toys: SyntaxError: invalid syntax \(__init__.py, line 1\)"),
    ],
)
def test_a_paper_that_cannot_be_used_gets_one_line(folder, name, code, said):
    (folder / "__init__.py").write_text(code)
    with pytest.raises(SubtuneError, match=said):
        papers.find_paper(name)


def test_an_error_names_the_file_of_the_package_and_the_line(folder):
    (folder / "figures.py").write_text("\nWIDTH = 1 / 0\n")
    with pytest.raises(SubtuneError, match=r"cannot import toys: figures.py, line 2: ZeroDivi"):
        papers.find_paper("toys")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("results['chozen']", "results: found 'chozen', expected one of chosen"),
        ("results['chosen'] / 0", "figures.py, line 4: TypeError: "),
        ("__import__('ast').literal_eval('(')", "figures.py, line 4: SyntaxError: "),
        ("{}", "found a result of the type dict, expected a DataFrame"),
    ],
)
def test_a_table_that_cannot_be_made_is_named(folder, function, said):
    code = f"WIDTH = 3\n\ndef make(results):\n    return {function}\n"
    (folder / "figures.py").write_text(code)
    code = with_field("exhibits", table("table1", "make=make"))
    (folder / "__init__.py").write_text(f"from .figures import make\n{code}")
    [exhibit] = papers.find_paper("toys").exhibits
    results = ExperimentResults({"chosen": "text"}, {}, print)
    with pytest.raises(SubtuneError) as caught:
        exhibit.make(results)
    assert str(caught.value).startswith(f"toys: exhibits: table1: {said}")


def test_a_figure_is_one_of_matplotlib(folder):
    drawn = 'Figure("figure1", "Title", "Caption.", make=lambda results: None)'
    code = f"from subtune.exhibits.output import Figure\n{with_field('exhibits', f'({drawn},)')}"
    (folder / "__init__.py").write_text(code)
    [exhibit] = papers.find_paper("toys").exhibits
    with pytest.raises(SubtuneError, match="figure1: found a result of the type NoneType, expe"):
        exhibit.make(ExperimentResults({}, {}, print))


def test_a_folder_does_not_hide_a_paper(folder):
    folder.rename("bitfit")
    with pytest.raises(SubtuneError, match=r"write ./bitfit for the folder, or rename it"):
        papers.find_paper("bitfit")
    assert papers.find_paper("./bitfit").citation == "Toys 3"


@pytest.mark.parametrize("value", ["mine_code", "mine_code:PAPER"])
def test_an_installed_package_registers_a_paper(folder, install, value):
    code = "from subtune.papers.paper import Paper\nPAPER = Paper(name='x', citation='Installed')"
    install("subtune.papers", "mine", value, code)
    assert papers.find_paper("mine").citation == "Installed"
    assert isinstance(papers.find_paper("bitfit"), Paper)


def test_an_installed_package_registers_a_ranking(install):
    install("subtune.rankings", "mine", "mine_code:twice", "def twice(weight): return 2 * weight")
    assert find_rule("mine").needs == {"weight"}


def test_a_built_in_name_cannot_be_registered(install):
    install("subtune.rankings", "gem", "mine_code:gem", "def gem(weight): return weight")
    assert not find_rule("gem").files
    with pytest.raises(SubtuneError, match="the package mine has the entry point 'gem' in subtune"):
        find_rule("another")


def test_the_files_of_code_are_found_without_importing_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "own.py").write_text("1 / 0\n")
    package = tmp_path / "site" / "shelf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "books.py").write_text("1 / 0\n")
    assert list_code_files("own.py:make") == [tmp_path / "own.py"]
    found = list_code_files("shelf.books:make")
    assert found == [package / "books.py", package / "__init__.py"]
    before = hash_own_code(["shelf.books:make"])
    (package / "__init__.py").write_text("# A comment.\n")
    assert hash_own_code(["shelf.books:make"]) != before
    for place in ("nowhere.py:make", "nowhere.books:make"):
        with pytest.raises(SubtuneError, match=r"cannot import nowhere.*: no such file"):
            list_code_files(place)


def test_what_imported_code_prints_is_no_output_of_a_command(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text("print('hello')\ndef make(): return 1\n")
    assert import_own_function(f"{path}:make")() == 1
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.nightly
def test_a_script_does_not_start_itself_again(tmp_path):
    """A script with an estimator of its own is imported, so that jobs can fit the estimator."""
    script = tmp_path / "script.py"
    script.write_text(
        "import subtune\n"
        "from sklearn.naive_bayes import GaussianNB\n"
        "class Mine(GaussianNB): pass\n"
        "print('started')\n"
        f"subtune.compare({str(TABLE)!r}, baselines={{'mine': Mine()}})\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "started\n" and done.stderr.count("started") == 1
    assert done.stderr.endswith(
        f"baselines: mine: cannot import {script}: it calls compare when it is imported; put the "
        'call under `if __name__ == "__main__":`\n'
    )

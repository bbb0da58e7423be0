"""The names and the imports of the library."""

import symtable
from collections import defaultdict
from graphlib import TopologicalSorter

import grimp

from tests.helpers.project import ROOT

SOURCE = ROOT / "src" / "subtune"
# Names that several modules have: each step has the first two, each paper the next two, and
# commands of `subtune.cli` may have the name of a function of the library.
IN_SEVERAL = {"jobs", "run", "PAPER", "EXHIBITS", "compare", "main", "__all__"}


def test_a_top_level_name_stands_in_one_module():
    modules = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for symbol in symtable.symtable(path.read_text(), str(path), "exec").get_symbols():
            if symbol.is_assigned() and not symbol.is_imported():
                modules[symbol.get_name()].append(path.relative_to(SOURCE).as_posix())
    several = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert several.keys() <= IN_SEVERAL, several


def test_imports_form_no_circle():
    # All imports count: those of functions, and those for annotations.
    graph = grimp.build_graph("subtune", cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imported).prepare()

"""Planning imports the functions of tables and figures, so importing them loads nothing heavy."""

import pkgutil
import subprocess
import sys

from subtune.exhibits import figures, tables

HEAVY = {"torch", "transformers", "matplotlib", "scipy", "sklearn"}


def test_importing_every_table_and_figure_loads_no_heavy_library():
    modules = [
        f"{package.__name__}.{module.name}"
        for package in (figures, tables)
        for module in pkgutil.iter_modules(package.__path__)
    ]
    code = f"import sys, {', '.join(modules)}; print({HEAVY} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

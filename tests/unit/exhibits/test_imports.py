"""Planning imports the functions of tables and figures, so importing them loads nothing heavy."""

import subprocess
import sys

MODULES = ("answers", "curves", "findings", "heat_maps", "methods", "points")
HEAVY = {"torch", "transformers", "matplotlib", "scipy", "sklearn"}


def test_importing_tables_and_figures_loads_no_heavy_library():
    modules = ", ".join(f"subtune.exhibits.{name}" for name in MODULES)
    code = f"import sys, {modules}; print({HEAVY} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

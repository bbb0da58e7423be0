"""How Sphinx makes the documentation's site: `make docs`."""

import sys
import tomllib
from pathlib import Path

from subtune.core import VERSION

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]

# The extensions, and the tests from which one of them makes tables.
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = PROJECT["name"]
version = release = VERSION
author = "the subtune developers"
copyright = f"{author}, MIT licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # In _ext.
    "api_pages",
    "appended_tables",
    "offline",
    "repository_links",
]
exclude_patterns = ["_build"]
# Blocks without a language are commands and what they print, layouts and formulas.
highlight_language = "none"
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False

# In docstrings single backticks are a name of the library's, or else text as it is written.
default_role = "py:obj"
napoleon_numpy_docstring = False
# An attribute that a docstring describes is described once.
napoleon_use_ivar = True
autodoc_member_order = "bysource"
# A package's page has what it defines; what it takes from its modules stands there with them.
autodoc_default_options = {"members": True, "ignore-module-all": True}
# Modules are headings, so that names need not begin with them.
add_module_names = False
python_use_unqualified_type_names = True

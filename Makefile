# make demo   the five papers on a laptop
# make report the demo's report: results/demo/report.html
# make test   every test except the long ones
# make test-fast  the library's quick tests, in less than a minute
# make test-all   every test, as CI runs them every week
# make bench  speed compared with the usual code, on real GLUE: make bench GLUE_DIR=/path/to/glue
# make check  formatting, lint, types and the order of imports
# make docs   the documentation's site: docs/_build/html/index.html
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo report test test-fast test-all bench check docs format schema hashes audit

install: .venv/installed

# Container images often keep Python from storing compiled files.
export PYTHONDONTWRITEBYTECODE :=
# Python compiles a file at its first import, and most of the packages' files are never imported.
# One process imports the packages below; otherwise every worker of a test run would compile them.
IMPORTED := datasets, matplotlib.backends.backend_agg, matplotlib.backends.backend_pdf, openpyxl, \
	peft, scipy.stats, sklearn.metrics, snakemake.cli
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

# The lock pins everything except CUDA's own packages, which torch pins itself. Each system has its own
# build of torch; for all other packages the hashes of their files are known.
.venv/installed: pyproject.toml requirements.lock requirements.hashes
	@case "$$PWD" in *[{}]*) \
		echo "$$PWD: Snakemake reads braces in the name of a folder as wildcards; move this clone to another folder"; \
		exit 1;; esac
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "subtune needs Python 3.11 or newer; try: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(PIP) --no-deps --require-hashes -r requirements.hashes
	$(PIP) torch -c requirements.lock
	$(PIP) -e '.[demo,dev,docs]' -c requirements.lock
	$(BIN)/python -c 'import $(IMPORTED)'
	touch $@

demo: install
	$(BIN)/snakemake --profile demo

# For another configuration: make report CONFIGURATION="-c2 --configfile FILE"
CONFIGURATION ?= --profile demo

report: install
	$(BIN)/snakemake $(CONFIGURATION) -- report_page

# Tests wait for processes that they start, so three workers keep two cores busy.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test: install
	$(PYTEST) -m "not nightly"

test-all: install
	$(PYTEST)

test-fast: install
	$(BIN)/python -m pytest -n 2 -m "not slow and not nightly" tests/unit

bench: install
	$(BIN)/python -m benchmarks --glue-dir "$(or $(GLUE_DIR),$(error set GLUE_DIR to a directory in GLUE's official layout))"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Sphinx's warnings, such as a dead link or an unreadable docstring, count as errors. After an
# error all pages are read again, because Sphinx skips pages that have not changed.
docs: install
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs 2 \
		--doctree-dir docs/_build/doctrees docs docs/_build/html \
		|| { rm -rf docs/_build/doctrees; exit 1; }

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

schema: install
	$(BIN)/python -c 'import json; from subtune.config.schema import Config; print(json.dumps(Config.model_json_schema(), indent=2))' > config.schema.json

# Call this after a change of requirements.lock. It needs uv, and `make audit` pip-audit: pipx install both.
hashes:
	grep -v '^#\|^torch==' requirements.lock | uv pip compile - --quiet --generate-hashes --no-deps \
		--python-version 3.11 --no-annotate --custom-compile-command "make hashes" \
		--output-file requirements.hashes

audit:
	pip-audit --requirement requirements.lock --no-deps --disable-pip

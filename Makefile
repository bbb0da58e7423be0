# make demo   run the five papers on a laptop
# make report write the report of the demo: results/demo/report.html
# make test   run all tests except the long ones
# make test-fast  run the quick tests of the library, in less than a minute
# make test-all   run all tests, as CI does every week
# make bench  compare the speed with other implementations, on GLUE: make bench GLUE_DIR=/path/to/glue
# make check  check formatting, lint, types and the layers of imports
# make docs   build the documentation: docs/_build/html/index.html
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo report test test-fast test-all bench check docs format schema hashes audit

install: .venv/installed

# Let Python store compiled files, which many container images forbid by this variable.
export PYTHONDONTWRITEBYTECODE :=
# pip does not compile packages (--no-compile), because most of their files are never imported. Python
# compiles a file at its first import. So import the large packages once; otherwise each test worker
# would compile them.
IMPORTED := datasets, matplotlib.backends.backend_agg, matplotlib.backends.backend_pdf, openpyxl, \
	peft, scipy.stats, sklearn.metrics, snakemake.cli
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

# requirements.lock pins all packages except those of CUDA, which torch pins. torch is installed without
# a hash, because each system has its own build. All other packages are installed with hashes.
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

# Tests often wait for the processes that they start, so three workers use two cores well.
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

# Warnings of Sphinx, such as a dead link or a malformed docstring, count as errors. After an error,
# the next call reads all pages again; otherwise Sphinx would skip unchanged pages and their warnings.
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

# Call this after a change of requirements.lock. It needs uv, and `make audit` needs pip-audit. Install
# both with pipx.
hashes:
	grep -v '^#\|^torch==' requirements.lock | uv pip compile - --quiet --generate-hashes --no-deps \
		--python-version 3.11 --no-annotate --custom-compile-command "make hashes" \
		--output-file requirements.hashes

audit:
	pip-audit --requirement requirements.lock --no-deps --disable-pip

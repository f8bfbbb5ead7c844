# DedupFS: `make run` starts it, `make test` tests it. `make help` lists the rest.
# PYTHON names the interpreter for the virtual environment; ARGS goes to `manage.py up`.

PY := .venv/bin/python
PYTEST := $(PY) -m pytest -n 2
# Tests and checks never see the settings of somebody's installation.
OWN_SETTINGS := $(shell env | sed -n 's/^\(DEDUPFS_[A-Z_]*\)=.*/-u \1/p') -u DATABASE_URL -u HUEY_URL -u PORT
CLEAN := env $(OWN_SETTINGS)
LOCK := $(PY) -m uv --quiet pip compile --universal --python-version 3.11 --generate-hashes --no-header

.PHONY: help install run install-dev test check torture bench screenshots lock

help:
	@echo "make install   the virtual environment and its packages"
	@echo "make run       install, prepare and start DedupFS (PORT=8000, ARGS=--no-demo)"
	@echo "make test      all tests on SQLite, all but most of the browser's on PostgreSQL"
	@echo "make check     style, types, import direction, migrations, templates"
	@echo "make torture   all tests in their long form, on both"
	@echo "make bench     measure, into benchmarks/RESULTS.md"
	@echo "make screenshots   the pictures of README.md, taken anew from the demo library"
	@echo "make lock      pin the newest packages that pyproject.toml allows"

install:
	@sh scripts/install.sh requirements.lock

run: install
	@$(PY) manage.py up $(ARGS)

install-dev:
	@sh scripts/install.sh requirements-dev.lock

test: install-dev
	@sh scripts/install_test_programs.sh
	$(CLEAN) $(PYTEST) -m "not torture"
	$(CLEAN) $(PY) -m tests.with_postgres $(PYTEST) -m "not torture and not browser"

torture: install-dev
	@sh scripts/install_test_programs.sh
	$(CLEAN) DEDUPFS_TEST_PROFILE=torture $(PYTEST) -m "torture or not torture"
	$(CLEAN) DEDUPFS_TEST_PROFILE=torture $(PY) -m tests.with_postgres $(PYTEST) -m "torture or not torture"

# Reading the settings makes a state folder, so the checks get one of their own.
check: CHECKED := $(CLEAN) DEDUPFS_STATE_ROOT=.venv/check-state
check: install-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(CHECKED) $(PY) -m mypy .
	$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	$(CHECKED) $(PY) manage.py makemigrations --check --dry-run
	$(CHECKED) $(PY) manage.py check_templates

bench: install-dev
	@sh scripts/install_bench_peers.sh
	$(CLEAN) $(PY) -m benchmarks $(ARGS)

screenshots: install-dev
	@sh scripts/install_test_programs.sh
	$(CLEAN) $(PY) scripts/take_screenshots.py

lock: install-dev
	$(PY) -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --upgrade -o requirements.lock pyproject.toml
	$(LOCK) --upgrade -o requirements-dev.lock -c requirements.lock --group dev pyproject.toml

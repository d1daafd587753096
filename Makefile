# Each target sets up what it needs: a virtual environment with the locked packages. PYTHON chooses another Python.
PYTHON ?= python3
RUN := .venv/bin/python

.PHONY: demo java postgres test test-long test-lowest check bench bench-spark docs lock clean

demo: .venv/ready java  ## football and factory sensors through window queries on Spark: tables, and out/demo.html
	$(RUN) -m muntin.demo

test: .venv/ready java postgres  ## all tests and doc tests, on all cores
	$(RUN) -m pytest -n auto

test-long: .venv/ready java postgres  ## the same with many more random cases
	HYPOTHESIS_PROFILE=long $(RUN) -m pytest -n auto

test-lowest: .venv-lowest/ready java postgres  ## the same with the lowest versions that pyproject.toml allows (Python 3.11 or 3.12)
	.venv-lowest/bin/python -m pytest -n auto

check: .venv/ready  ## lint, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: .venv/ready  ## speed and latency, as tables and into docs/benchmarks.md; fails if a limit is lost
	$(RUN) -m benchmarks

bench-spark: .venv/ready java  ## the pipeline against Spark's own windows, into docs/benchmarks-spark.md
	$(RUN) -m benchmarks.spark

docs: .venv/ready  ## the drawings, and the documentation as a site, into out/site
	$(RUN) -m drawings
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

java:  ## a Java for Spark, from Debian's packages if there is none
	@if [ -z "$$JAVA_HOME" ] && ! command -v java > /dev/null; then \
		echo "There is no Java, which Spark needs: installing openjdk-17-jre-headless"; \
		apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless; \
	fi

postgres:  ## a PostgreSQL for the tests of tables, which start a server of their own; from Debian's packages if there is none
	@if ! command -v initdb > /dev/null && ! ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; then \
		echo "There is no PostgreSQL, which tests need: installing postgresql"; \
		apt-get update && apt-get install --yes --no-install-recommends postgresql; \
	fi

lock:  ## pin the newest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet pip-tools
	.venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --all-extras \
		--no-header --no-annotate --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file requirements.lock pyproject.toml
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .venv-lowest out .hypothesis .mypy_cache .pytest_cache .ruff_cache

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "muntin needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Setting up .venv (once)"
	@$(PYTHON) -m venv --clear .venv || { apt-get update && apt-get install --yes python3-venv && $(PYTHON) -m venv --clear .venv; }
	@$(RUN) -m pip install --quiet --require-hashes --requirement requirements.lock
	@$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv-lowest/ready: pyproject.toml scripts/lowest.py
	@echo "Setting up .venv-lowest (once)"
	@$(PYTHON) -m venv --clear .venv-lowest
	@$(PYTHON) scripts/lowest.py > .venv-lowest/requirements.txt
	@.venv-lowest/bin/python -m pip install --quiet --requirement .venv-lowest/requirements.txt
	@.venv-lowest/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

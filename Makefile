# Each target sets up what it needs: a virtual environment with the locked packages. PYTHON chooses another Python.
PYTHON ?= python3
RUN := .venv/bin/python

.PHONY: demo dashboard java node chromium postgres page test test-long test-lowest check bench bench-spark bench-dashboard docs wheel lock clean

demo: .venv/ready java  ## football and factory sensors through window queries on Spark: tables, and out/demo.html
	$(RUN) -m muntin.demo

dashboard: .venv/ready page  ## a page in the browser that shows windows of generated football and factory streams; Ctrl-C ends it
	$(RUN) -m muntin.cli dashboard --demo --allow-queries

test: .venv/ready page java postgres chromium  ## all tests and doc tests, on all cores
	$(RUN) -m pytest -n auto

test-long: .venv/ready page java postgres chromium  ## the same with many more random cases
	HYPOTHESIS_PROFILE=long $(RUN) -m pytest -n auto

test-lowest: .venv-lowest/ready page java postgres chromium  ## the same with the lowest versions that pyproject.toml allows (Python 3.11 or 3.12)
	.venv-lowest/bin/python -m pytest -n auto

check: .venv/ready  ## lint, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: .venv/ready  ## speed and latency, as tables and into docs/benchmarks.md; fails if a limit is lost
	$(RUN) -m benchmarks

bench-spark: .venv/ready java  ## the pipeline against Spark's own windows, into docs/benchmarks-spark.md
	$(RUN) -m benchmarks.spark

bench-dashboard: .venv/ready page  ## what 50 pages cost a stream of a million records a second; fails if it is too much
	$(RUN) -m benchmarks.dashboard

docs: .venv/ready  ## the drawings, and the documentation as a site, into out/site
	$(RUN) -m drawings
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

java:  ## a Java for Spark, from Debian's packages if there is none
	@if [ -z "$$JAVA_HOME" ] && ! command -v java > /dev/null; then \
		echo "There is no Java, which Spark needs: installing openjdk-17-jre-headless"; \
		apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless; \
	fi

page: src/muntin/dashboard/page/vendor/uPlot.esm.js  ## the chart library of the dashboard's page, into the package

src/muntin/dashboard/page/vendor/uPlot.esm.js: web/package-lock.json
	@$(MAKE) --no-print-directory node
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	mkdir -p $(@D)
	cp web/node_modules/uplot/dist/uPlot.esm.js web/node_modules/uplot/dist/uPlot.min.css $(@D)
	cp web/node_modules/uplot/LICENSE $(@D)/LICENSE.txt
	@touch $@

wheel: .venv/ready page  ## sdist and wheel, into dist
	$(RUN) -m hatchling build

node:  ## a Node for the build of the page, from Debian's packages if there is none
	@if ! command -v npm > /dev/null; then \
		echo "There is no npm, which the page is built with: installing nodejs and npm"; \
		apt-get update && apt-get install --yes --no-install-recommends nodejs npm; \
	fi

chromium:  ## a browser for the tests of the page, from Debian's packages if there is none
	@if ! command -v chromium > /dev/null; then \
		echo "There is no Chromium, which tests need: installing chromium"; \
		apt-get update && apt-get install --yes --no-install-recommends chromium; \
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
	rm -rf .venv .venv-lock .venv-lowest dist out web/node_modules src/muntin/dashboard/page/vendor .hypothesis .mypy_cache .pytest_cache .ruff_cache

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

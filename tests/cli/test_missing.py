"""A plain install: commands whose packages are not there say in one sentence how to get them."""

import json
import os
import subprocess
import sys

import pytest

import muntin as mt
from tests.cli.program import TICKS, write_ticks

EXTRAS = ("pyspark", "pandas", "google.protobuf", "datasketches", "matplotlib", "polars", "river")
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in {names!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["muntin", *{arguments!r}]
import runpy
runpy.run_module({module!r}, run_name="__main__")
"""


def plain(*arguments, cwd, without=EXTRAS, module="muntin.cli"):
    """Run the program as if some packages were not installed."""
    code = BLOCKED.format(names=without, arguments=arguments, module=module)
    env = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )


def refused(done, said):
    """The program said one sentence, and how to go on."""
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"muntin: {said}\n"


def test_the_demo_without_spark(tmp_path):
    said = "the demo needs pyspark, which is not installed: pip install 'muntin[spark]'."
    refused(plain("demo", cwd=tmp_path), said)
    refused(plain(cwd=tmp_path, module="muntin.demo"), said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "google.protobuf"])
def test_pipelines_without_spark(tmp_path, missing):
    (tmp_path / "ticks.toml").write_text(TICKS)
    advice = "pip install 'muntin[spark]', or use --engine embedded."
    done = plain("run", "ticks.toml", cwd=tmp_path, without=(missing,))
    refused(done, f"Spark needs {missing}, which is not installed: {advice}")
    assert [path.name for path in tmp_path.iterdir()] == ["ticks.toml"]


def test_the_embedded_engine_needs_no_extra(tmp_path):
    write_ticks(tmp_path, seconds=5)
    done = plain("run", "--engine", "embedded", "ticks.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("missing", ["polars", "river", "matplotlib", "datasketches"])
@pytest.mark.parametrize("arguments", [[], ["--list"], ["latency"]], ids=str)
def test_benchmarks_without_what_they_compare_with(tmp_path, missing, arguments):
    said = f"a benchmark needs {missing}, which is not installed: pip install 'muntin[bench,sketches]'."
    refused(plain("bench", *arguments, cwd=tmp_path, without=(missing,)), said)


def test_sketches_in_pipelines_and_statements(tmp_path):
    said = "approximate aggregates need the datasketches library: pip install muntin[sketches]"
    (tmp_path / "calls.toml").write_text(TICKS.replace("mean(price)", "approx_count_distinct(price)"))
    refused(
        plain("run", "--engine", "embedded", "calls.toml", cwd=tmp_path),
        f"calls.toml, line 16: 'approx_count_distinct(price)': {said}",
    )
    statement = "SELECT APPROX_COUNT_DISTINCT(price) FROM TUMBLE(t, ts, '1s')"
    (tmp_path / "sql.toml").write_text(
        f'[source]\nformat = "csv"\npath = "x.csv"\n[[query]]\nsql = "{statement}"'
    )
    refused(plain("explain", "sql.toml", cwd=tmp_path), f"sql.toml, line 5: {said}")
    refused(plain("explain", statement, cwd=tmp_path), said)


def checks(done):
    return {check["name"]: check for check in map(json.loads, done.stdout.splitlines())}


def test_nothing_is_amiss_with_a_plain_install(tmp_path):
    done = plain("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = checks(done)
    states = {name: check["state"] for name, check in found.items()}
    assert {"Java", "pyspark", "pandas", "protobuf", "PYSPARK_PYTHON", "memory"}.isdisjoint(states)
    assert set(states.values()) <= {"ok", "optional", "warning"}
    for name, extra in (("Spark", "spark"), ("sketches", "sketches")):
        assert (states[name], found[name]["found"]) == ("optional", "not installed")
        assert f"pip install 'muntin[{extra}]'" in found[name]["advice"]
    told = plain("doctor", cwd=tmp_path)
    assert told.returncode == 0
    assert "amiss" not in told.stdout
    assert "not installed" in told.stdout


@pytest.mark.parametrize(
    ("missing", "name"), [("pandas", "pandas"), ("google.protobuf", "protobuf"), ("numba", "numba")]
)
def test_what_is_needed_by_what_is_installed_is_amiss(tmp_path, missing, name):
    done = plain("doctor", "--json", cwd=tmp_path, without=(missing,))
    assert done.returncode == 2, done.stderr
    assert checks(done)[name]["state"] == "amiss"
    assert "pip install" in checks(done)[name]["advice"]


def test_the_version(tmp_path):
    done = plain("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"muntin {mt.__version__}\n", "")

"""Help fits a screen and has an example; nothing heavy is loaded for it."""

import subprocess
import sys
import time

import pytest
import typer

from muntin.cli.app import app
from tests.cli.program import muntin

COMMANDS = [[], *([name] for name in ("run", "explain", "generate", "demo", "dashboard", "bench", "doctor"))]


def test_all_commands_are_looked_at():
    assert {name for words in COMMANDS for name in words} == set(typer.main.get_command(app).commands)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "".join(words) or "muntin")
def test_help_fits_a_screen_and_has_an_example(tmp_path, words):
    done = muntin(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert "Example:" in done.stdout
    assert lines[lines.index("  Example:") + 1].startswith("    muntin ")


def quickest(work):
    """Return the least seconds of three tries."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def test_help_is_quick(tmp_path):
    heavy = "{'numba', 'pyspark', 'pyarrow', 'pandas'}"
    code = f"import sys; from muntin.cli import app; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    rest = quickest(lambda: subprocess.run([sys.executable, "-c", "import numpy, typer"], check=True))
    took = quickest(lambda: muntin("--help", cwd=tmp_path))
    assert took < max(1.0, 4 * rest)  # a busy machine is slow at both


def test_shells_complete_choices(tmp_path):
    environment = {
        "_MUNTIN_COMPLETE": "complete_bash",
        "COMP_WORDS": "muntin generate debs",
        "COMP_CWORD": "2",
    }
    assert muntin(cwd=tmp_path, **environment).stdout.split() == ["debs12", "debs13"]


def test_words_that_nobody_knows(tmp_path):
    done = muntin("rnu", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "muntin: No such command 'rnu'. Did you mean 'run'?\n"
    done = muntin("run", "--engine", "flink", "x.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "'spark', 'embedded': see muntin --help." in done.stderr

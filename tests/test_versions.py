"""The versions of packages: each has a lower bound to be tried, and the locked ones are within all bounds."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lowest import lowest, requirements

ROOT = Path(__file__).parents[1]
WANTED = requirements((ROOT / "pyproject.toml").read_text())


def test_all_requirements_are_found():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(text).name for text in WANTED}
    assert {"numba", "sqlglot", "pyspark", "polars", "datasketches", "pytest", "mkdocs-material"} <= names
    extras = project["optional-dependencies"]
    assert len(WANTED) == len(project["dependencies"]) + sum(map(len, extras.values()))


@pytest.mark.parametrize("text", WANTED)
def test_the_lowest_and_the_locked_version_are_within_the_bounds(text):
    wanted = Requirement(text)
    (bound,) = (part.version for part in wanted.specifier if part.operator == ">=")
    pinned = Requirement(lowest(text))
    assert (pinned.name, pinned.extras, str(pinned.specifier)) == (wanted.name, wanted.extras, f"=={bound}")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)])


def test_a_requirement_without_a_lower_bound_is_refused():
    for text in ("numpy", "numpy<3", "numpy==2", "numpy~=2.0"):
        with pytest.raises(ValueError, match="has no lower bound: write it as name>=version"):
            lowest(text)


def test_the_build_needs_what_the_extra_has():
    """`make` builds without isolation, with the packages of the extra `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) <= set(WANTED)

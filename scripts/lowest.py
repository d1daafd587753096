"""The lowest versions that pyproject.toml allows, of every dependency and extra: one requirement a line.

`make test-lowest` runs all tests with them, so that each lower bound is one that was tried. Packages that
these need in turn are the newest that fit.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+(?:\[[^]]*\])?)>=([0-9.]+)(?:,.*)?")


def lowest(requirement: str) -> str:
    """Return a requirement pinned to its lower bound; one without such a bound is refused.

    >>> lowest("sqlglot>=30.24,<31"), lowest("mkdocstrings[python]>=0.29")
    ('sqlglot==30.24', 'mkdocstrings[python]==0.29')
    """
    found = _REQUIREMENT.fullmatch(requirement.replace(" ", ""))
    if found is None:
        raise ValueError(f"{requirement!r} has no lower bound: write it as name>=version.")
    return f"{found[1]}=={found[2]}"


def requirements(text: str) -> list[str]:
    """Return all requirements that the text of a pyproject.toml has, those of extras too."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]


def main() -> None:
    """Print what to install."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    sys.stdout.writelines(f"{lowest(requirement)}\n" for requirement in requirements(file.read_text()))


if __name__ == "__main__":
    main()

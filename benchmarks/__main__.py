"""All benchmarks, into docs/benchmarks.md: `make bench`."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa

from benchmarks import (
    aggregates,
    calls,
    every_aggregate,
    features,
    frames,
    latency,
    own_aggregates,
    peers,
    speed,
    splits,
    state_size,
    stream,
    techniques,
    windows,
)

MODULES = (
    speed,
    latency,
    windows,
    frames,
    peers,
    features,
    calls,
    stream,
    state_size,
    techniques,
    splits,
    aggregates,
    every_aggregate,
    own_aggregates,
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> int:
    results = [module.run() for module in MODULES]
    packages = {"NumPy": np, "Numba": numba, "Arrow": pa}
    versions = ", ".join(f"{name} {package.__version__}" for name, package in packages.items())
    head = [
        "# Benchmarks",
        "",
        "Written by `make bench`; compare numbers within this page only. Answers are checked before anything",
        f"is timed. {os.cpu_count()} cores, Python {platform.python_version()}, {versions}.",
        "",
    ]
    PAGE.write_text("\n".join([*head, *(section for section, _ in results)]))
    return 0 if all(held for _, held in results) else 1


if __name__ == "__main__":
    sys.exit(main())

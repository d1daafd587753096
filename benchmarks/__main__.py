"""All benchmarks, into docs/benchmarks.md: `make bench`."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numba
import numpy as np

from benchmarks import latency, speed

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> int:
    results = [speed.run(), latency.run()]
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}"
    head = [
        "# Benchmarks",
        "",
        "Written by `make bench`; compare numbers within this page only. Answers are checked before anything",
        f"is timed. {os.cpu_count()} cores, {versions}.",
        "",
    ]
    PAGE.write_text("\n".join([*head, *(section for section, _ in results)]))
    return 0 if all(held for _, held in results) else 1


if __name__ == "__main__":
    sys.exit(main())

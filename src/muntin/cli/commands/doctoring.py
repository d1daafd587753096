"""muntin doctor: what the machine has, what is amiss, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muntin.cli.measuring import DASHBOARD
from muntin.cli.pipeline.sinks import as_json
from muntin.console.mistakes import MISTAKEN, OK, installed, one_line

_GB = 1e9
_HEAP = 2.0  # GB, what a local session gives Java
_MARKS = {
    "ok": "[green]ok[/green]",
    "optional": "optional",
    "warning": "[yellow]warning[/yellow]",
    "amiss": "[red]amiss[/red]",
}
_MODULES = {"protobuf": "google.protobuf"}  # where packages are called otherwise
_INSTALL_SPARK = "pip install 'muntin[spark]' to run on Spark, which also needs Java"


@dataclass(frozen=True)
class Check:
    """What was looked at, how it is, and what to do."""

    name: str
    state: str  # ok, optional (an extra that is not installed), warning, amiss
    found: str
    advice: str = ""


def doctor(*, as_lines: bool) -> int:
    """Print all checks; return 2 if something is amiss."""
    checks = list(_checks())
    if as_lines:
        for check in checks:
            print(as_json({"event": "check", **asdict(check)}))
    else:
        table = Table("check", "", "found", "what to do", box=None, header_style="bold")
        for check in checks:
            table.add_row(check.name, _MARKS[check.state], Text(check.found), Text(check.advice))
        Console().print(table)
    return MISTAKEN if any(check.state == "amiss" for check in checks) else OK


def _checks() -> Iterator[Check]:
    yield _python()
    for name in ("numpy", "pyarrow", "numba", "sqlglot"):
        yield _package(name, "pip install muntin")
    if installed("pyspark"):
        for name in ("pyspark", "pandas", "protobuf"):
            yield _package(name, "pip install 'muntin[spark]', or use --engine embedded")
        yield _java()
        yield _workers()
        yield _memory()
    else:
        yield Check("Spark", "optional", "not installed", _INSTALL_SPARK)
    yield _sketches()
    yield _dashboard()
    yield _cache()
    yield _disk()


def _python() -> Check:
    """Say which Python this is: an older one than muntin needs does not get here."""
    return Check("Python", "ok", f"{platform.python_version()}, {sys.executable}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # such as the pyspark in Spark's own folder
        return "not by pip"


def _package(name: str, advice: str) -> Check:
    if not installed(_MODULES.get(name, name)):
        return Check(name, "amiss", "not installed", advice)
    version = _version(name)
    known = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if name == "pandas" and known >= (3,):
        return Check(
            name, "amiss", version, "pip install 'pandas<3': with 3, Spark's streams die on null keys"
        )
    if name == "pyspark" and () < known < (4, 2):
        return Check(name, "amiss", version, "pip install 'pyspark>=4.2'")
    return Check(name, "ok", version)


def _java() -> Check:
    try:
        from muntin.spark.session import JavaError, java_version
    except ImportError as error:
        return Check("Java", "warning", "not looked for", f"put right {error.name} first")
    try:
        return Check("Java", "ok", str(java_version()))
    except JavaError as error:
        return Check("Java", "amiss", "none that Spark can use", one_line(error))


def _workers() -> Check:
    """Look at which Python Spark's workers take, in sessions of one's own."""
    named = os.environ.get("PYSPARK_PYTHON")
    if named and shutil.which(named) is None:
        return Check("PYSPARK_PYTHON", "amiss", named, "name a Python that is there, or unset it")
    return Check("PYSPARK_PYTHON", "ok", named or "not set: local sessions take this Python")


def _dashboard() -> Check:
    if not all(map(installed, DASHBOARD)):
        advice = "pip install 'muntin[dashboard]' for a page that shows windows"
        return Check("dashboard", "optional", "not installed", advice)
    return Check("dashboard", "ok", f"starlette {_version('starlette')}, uvicorn {_version('uvicorn')}")


def _sketches() -> Check:
    if not installed("datasketches"):
        advice = "pip install 'muntin[sketches]' for approximate aggregates"
        return Check("sketches", "optional", "not installed", advice)
    return Check("sketches", "ok", f"datasketches {_version('datasketches')}")


def _cache() -> Check:
    """Look whether compiled kernels can be kept."""
    from muntin.kernels.modules import choose_directory

    folder, refused = choose_directory()
    advice = "name a folder that only you can write to in MUNTIN_CACHE_DIR, or each start compiles anew"
    if folder is None:
        found = "; ".join(refused) or "there is no folder that can be made"
        return Check("kernel cache", "amiss", found, advice)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("kernel cache", "amiss", f"{folder}: {error.strerror}", advice)
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    found = f"{folder}: {len(files)} files, {size / 1e6:.0f} MB"
    if refused:
        return Check("kernel cache", "warning", f"{found}; {'; '.join(refused)}", advice)
    return Check("kernel cache", "ok", found)


def _memory() -> Check:
    free = _available_memory()
    if free is None:
        return Check("memory", "warning", "unknown", f"Spark needs about {_HEAP + 1:.0f} GB")
    found = f"{free / _GB:.1f} GB free"
    if free < (_HEAP + 1) * _GB:
        advice = f"make room: Spark takes {_HEAP:.0f} GB, its workers some more; or use --engine embedded"
        return Check("memory", "warning", found, advice)
    return Check("memory", "ok", found)


def _available_memory() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return None
    return next((int(line.split()[1]) * 1024.0 for line in lines if line.startswith("MemAvailable")), None)


def _disk() -> Check:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    found = f"{free / _GB:.1f} GB free in {tempfile.gettempdir()}"
    if free < _GB:
        return Check("disk", "warning", found, "make room, or set TMPDIR: Spark writes shuffles there")
    return Check("disk", "ok", found)

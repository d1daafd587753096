"""A step of the build: a wheel or an sdist without the chart library of the dashboard is not built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ("uPlot.esm.js", "uPlot.min.css", "LICENSE.txt")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Looks for the files that `make page` brings."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuse a build without them; an editable install may come before `make page`."""
        del build_data
        if version == "editable":
            return
        vendor = Path(self.root) / "src/muntin/dashboard/page/vendor"
        missing = [name for name in NEEDED if not (vendor / name).is_file()]
        if missing:
            raise FileNotFoundError(f"{', '.join(missing)} of the dashboard's page: run `make page` first.")

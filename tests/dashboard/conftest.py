"""A real browser for the tests of the page: Debian's Chromium, through Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")  # no longer: its event loop is in the way of others
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module; `make chromium` installs it."""
    program = shutil.which("chromium")
    assert program is not None, "there is no Chromium: run `make chromium`"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()

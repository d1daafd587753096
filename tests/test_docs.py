"""The documentation: its code runs, its drawings are what the library says, and the site builds."""

import os
import re
import subprocess
import sys

import pytest
import yaml

import muntin
import muntin.spark
from drawings.__main__ import FOLDER, everything
from tests import docs_code

PLAIN = [page for page in docs_code.with_code() if not docs_code.on_spark(page)]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.relative_to(docs_code.ROOT).as_posix())
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs_code.run(page, {"__name__": "__main__"})


def test_no_code_is_fenced_in_a_way_that_no_test_finds():
    for page in docs_code.PAGES:
        text = page.read_text()
        assert not re.search(r"^[ \t]+```py|^```(?:py|pycon|python3|python[ \t]+\S.*)$", text, re.M), page
        for match in re.finditer(r"^>>> ", text, re.M):  # a doc test ends before its fence
            end = text.index("```", match.start())
            assert text[end - 2 : end] == "\n\n", f"{page}: {text[match.start() : end]}"


def test_drawings_are_what_the_library_says():
    made = everything()
    assert {path.name for path in FOLDER.iterdir()} == set(made)
    for name, text in made.items():
        assert (FOLDER / name).read_text() == text, f"{name} is old: python -m drawings"
        assert len(text) < 15_000


def test_every_public_name_is_on_a_page_of_the_api():
    pages = "".join(page.read_text() for page in (docs_code.ROOT / "docs" / "api").glob("*.md"))
    elsewhere = {"PROCESSING_TIME", "__version__", "policies", "swag"}  # a marker, a text, two modules
    for module, left_out in ((muntin, elsewhere), (muntin.swag, set()), (muntin.spark, set())):
        for name in set(module.__all__) - left_out:
            assert re.search(rf"^::: muntin\.[\w.]*\b{name}$", pages, re.M), f"{name} is on no page"


def titles(entries):
    """Return what the entries of a navigation are called, and those below them; some have no title."""
    for entry in entries:
        for title, below in entry.items() if isinstance(entry, dict) else ():
            yield title
            yield from titles(below) if isinstance(below, list) else ()


def test_titles_in_the_navigation_are_texts():
    """YAML reads `on` and `off` as booleans."""
    site = yaml.safe_load((docs_code.ROOT / "mkdocs.yml").read_text())
    assert [title for title in titles(site["nav"]) if not isinstance(title, str)] == []
    assert "on" in titles(site["nav"])


def anchors(page):
    """Return what the headings of a page are linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(name):
    """What mkdocs does not see."""
    for path, _, anchor in re.findall(
        r"\]\((?!https?:)([^)#]*)(#([^)]*))?\)", (docs_code.ROOT / name).read_text()
    ):
        assert (docs_code.ROOT / path).is_file(), f"{name}: {path}"
        assert not anchor or anchor in anchors(docs_code.ROOT / path), f"{name}: {path}#{anchor}"


def test_the_site_builds_without_a_warning(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",  # which sees no warning under --quiet
        "--site-dir",
        str(tmp_path / "site"),
    ]
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # a notice of its theme about the years to come
    done = subprocess.run(
        command, cwd=docs_code.ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    asked = r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(?:https?:)?//'
    for page in pages:  # the site works without a network
        assert not re.search(asked, page.read_text()), page

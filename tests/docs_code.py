"""The code of the documentation: blocks without prompts, page by page. Those with prompts are doc tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>[^>]+) -->\n)?```python\n(?P<code>.*?)```", re.S)


def blocks(page):
    """Return the code of a page, and what each block needs that is not here, if so."""
    found = [(match["code"], match["needs"]) for match in _BLOCK.finditer(page.read_text())]
    return [(code, needs) for code, needs in found if not code.startswith(">>> ")]


def on_spark(page):
    """Tell whether a page's code needs a Spark session."""
    return any("muntin.spark" in code for code, _ in blocks(page))


def with_code():
    """Return the pages that have such blocks."""
    return [page for page in PAGES if blocks(page)]


def run(page, namespace, change=lambda code: code):
    """Run the blocks of a page in order, as one text; those that need what is not here are compiled only."""
    for number, (code, needs) in enumerate(blocks(page)):
        compiled = compile(change(code), f"{page.name}, block {number}", "exec")
        if needs is None:
            exec(compiled, namespace)

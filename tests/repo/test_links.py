"""Pages lead where they say: relative links to a file, a section named behind a page to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_SECTION = re.compile(r'\b(?:docs/)?([A-Z-]+\.md)(?:\]\([^)]*\))?,\s"([^"\n]+)"')
_HEADING = re.compile(r"^#+ (.+)$|^\*\*(.+?)\.?\*\*", re.MULTILINE)


def leading_nowhere(page: Path, text: str) -> list[str]:
    linked = [target for target in _LINK.findall(text) if "://" not in target]
    found = [target for target in linked if not (page.parent / target).exists()]
    for name, section in _SECTION.findall(text):
        other = ROOT / "docs" / name
        headings = _HEADING.findall(other.read_text(encoding="utf-8")) if other.exists() else []
        if section not in {title for pair in headings for title in pair}:
            found.append(f"{name}, {section}")
    return found


def test_what_leads_nowhere_is_seen() -> None:
    page = ROOT / "docs" / "BUNDLE.md"
    links = "[x](NONE.md), [y](RECORD.md#a), [z](https://example.org)"
    text = f'{links}, docs/RECORD.md, "Waiting", RECORD.md, "Wating"'
    assert leading_nowhere(page, text) == ["NONE.md", "RECORD.md, Wating"]


def test_every_page_leads_somewhere() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    assert sum(len(_LINK.findall(text)) for text in texts.values()) > 100
    assert sum(len(_SECTION.findall(text)) for text in texts.values()) > 10
    assert {page.name: found for page, text in texts.items() if (found := leading_nowhere(page, text))} == {}

"""Reports as a reader has them: nothing fetched, no overflow, sorting, filtering, both schemes, print."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from chrome import Chrome, Tab

KINDS = ("run", "suites", "power", "bench", "compare", "index", "machine")
WIDTHS = (360, 1280)
LEAST_CONTRAST = 4.5
#: height of a first screen
SCREEN_PX = 900
CONTRAST = (Path(__file__).with_name("contrast.js")).read_text(encoding="utf-8")
OPEN_ALL = "document.querySelectorAll('details.fold').forEach((part) => { part.open = true; })"


def table(name: str) -> str:
    return f"document.getElementById('{name}')"


def column(tab: Tab, name: str, index: int) -> list[str]:
    """Sort keys of the visible rows of a table, top to bottom."""
    found: list[str] = tab.evaluate(
        f"[...{table(name)}.tBodies[0].rows].filter((row) => !row.hidden)"
        f".map((row) => keyOf(row.cells[{index}]))"
    )
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_complaint_no_fetch_no_overflow(
    chrome: Chrome, pages: dict[str, Path], kind: str, width: int
) -> None:
    tab = chrome.open(pages[kind].as_uri(), width)
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page overflows"
    assert tab.evaluate("document.body.innerText.length") > 2000
    assert tab.problems == []
    assert tab.requests == [pages[kind].as_uri()], "one file, and nothing else is asked for"
    tab.close()


def test_every_column_sorts_both_ways_and_missing_stays_last(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open(pages["suites"].as_uri())
    heads = tab.evaluate(f"[...{table('handshake-table')}.tHead.rows[0].cells].map((c) => c.textContent)")
    place = next(i for i, head in enumerate(heads) if head.startswith("wall drone"))
    button = f"{table('handshake-table')}.tHead.rows[0].cells[{place}]"
    before = column(tab, "handshake-table", place)
    assert len(before) == 72
    for wanted, reverse in (("ascending", False), ("descending", True)):
        tab.evaluate(f"{button}.querySelector('button').click()")
        assert tab.evaluate(f"{button}.getAttribute('aria-sort')") == wanted
        values = [float(key) for key in column(tab, "handshake-table", place)]
        assert values == sorted(values, reverse=reverse)
    assert sorted(before) == sorted(column(tab, "handshake-table", place)), "no row is lost"
    tab.close()


def test_filter_shows_what_matches_and_says_how_many(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open(pages["suites"].as_uri())
    box = f"{table('handshake-table')}.closest('.scroll').previousElementSibling"

    def count(text: str) -> tuple[int, str]:
        tab.evaluate(
            f"(() => {{ const field = {box}.querySelector('input'); field.value = {text!r}; "
            "field.dispatchEvent(new Event('input')); })()"
        )
        tab.evaluate("new Promise((done) => setTimeout(done, 150))")
        return len(column(tab, "handshake-table", 0)), tab.evaluate(
            f"{box}.querySelector('output').textContent"
        )

    assert count("mlkem768") == (6, "6 of 72")
    assert count("mlkem768 -sphincs") == (3, "3 of 72")
    assert count("mlkem768|hqc192 aesgcm") == (4, "4 of 72")
    assert count("no such suite") == (0, "0 of 72")
    assert count("") == (72, "")
    assert tab.evaluate(f"{box}.querySelector('input').getAttribute('aria-label')").startswith("Filter: ")
    tab.close()


def test_a_letter_of_the_matrix_opens_its_cell(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open(pages["run"].as_uri())
    assert not tab.evaluate("document.querySelector('details.cell[open]')")
    href = tab.evaluate("document.querySelector('#matrix tbody a').getAttribute('href')")
    tab.evaluate("document.querySelector('#matrix tbody a').click()")
    tab.wait(f"document.querySelector({href!r}).open")
    inside = f"document.querySelectorAll('{href} .links a')"
    links = tab.evaluate(f"[...{inside}].map((link) => link.getAttribute('href'))")
    assert any(link.endswith("logs/drone.log") for link in links)
    for link in links:
        assert (pages["run"].parent / link).is_file(), link
    tab.close()


def test_two_suites_stand_side_by_side(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open(pages["suites"].as_uri())
    tab.evaluate(
        "(() => { const pick = document.querySelectorAll('.pick select')[1]; pick.selectedIndex = 40; "
        "pick.dispatchEvent(new Event('change')); })()"
    )
    rows = tab.evaluate(
        f"[...{table('side-by-side-view')}.rows].map((row) => [...row.cells].map((c) => c.textContent))"
    )
    assert rows[0][0] == "quantity" and rows[0][1].startswith("cs-") and rows[0][1] != rows[0][2]
    line = next(row for row in rows if row[0].startswith("handshake"))
    assert float(line[3]) == pytest.approx(
        float(line[2].replace(",", "")) / float(line[1].replace(",", "")), rel=0.02
    )
    tab.close()


@pytest.mark.parametrize("dark", [False, True])
def test_both_schemes_are_readable(chrome: Chrome, pages: dict[str, Path], dark: bool) -> None:
    tab = chrome.open(pages["run"].as_uri(), dark=dark)
    tab.evaluate(OPEN_ALL)
    shade = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
    assert (shade < 60) is dark
    assert tab.evaluate(f"({CONTRAST})({LEAST_CONTRAST})") == []
    tab.close()


def test_without_a_pointer_every_control_is_reached_and_named(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open(pages["run"].as_uri())
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('button, a[href], input, select, summary, [tabindex]')]"
        ".filter((c) => !(c.textContent.trim() || c.getAttribute('aria-label'))).map((c) => c.outerHTML)"
    )
    assert unnamed == []
    assert tab.evaluate("[...document.querySelectorAll('td, th')].every((c) => c.closest('table'))")
    assert tab.evaluate("[...document.querySelectorAll('thead th')].every((c) => c.scope)")
    tab.close()


def test_it_prints_with_its_folded_tables_and_without_its_controls(
    chrome: Chrome, pages: dict[str, Path]
) -> None:
    tab = chrome.open(pages["run"].as_uri())
    tab.media(medium="print")
    assert tab.evaluate("getComputedStyle(document.querySelector('.filter')).display") == "none"
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    folded = "[...document.querySelectorAll('details.fold')]"
    tab.evaluate(
        f"addEventListener('beforeprint', () => {{ window.open_then = {folded}.every((p) => p.open); }})"
    )
    pdf = base64.b64decode(tab.command("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert pdf.startswith(b"%PDF-") and pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 5
    assert tab.evaluate("window.open_then"), "every table is printed"
    assert not tab.evaluate(f"{folded}.some((part) => part.open)"), "and folded again"
    tab.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_screen_holds_the_answer(chrome: Chrome, pages: dict[str, Path], kind: str) -> None:
    tab = chrome.open(pages[kind].as_uri(), 1400, 900)
    low = "document.querySelector({0!r}).getBoundingClientRect().bottom"
    assert re.search(r"\d", tab.evaluate("document.getElementById('compared').innerText"))
    assert tab.evaluate(low.format("#compared")) < SCREEN_PX
    point = "#answer svg circle"
    assert tab.evaluate(low.format(point)) < SCREEN_PX, "a drawing with a value in it"
    assert tab.evaluate(low.format("#verdict-counts")) < 300
    tab.close()


def test_a_narrow_window_has_a_drawing_of_its_width(chrome: Chrome, pages: dict[str, Path]) -> None:
    for width, shown, hidden in ((360, ".narrow", ".wide"), (1400, ".wide", ".narrow")):
        tab = chrome.open(pages["run"].as_uri(), width)
        display = "getComputedStyle(document.querySelector('#fig-answer {0}')).display"
        assert tab.evaluate(display.format(hidden)) == "none"
        assert tab.evaluate(display.format(shown)) == "block"
        box = f"document.querySelector('#fig-answer {shown} svg').getBoundingClientRect()"
        assert tab.evaluate(f"{box}.right <= window.innerWidth && {box}.width > 0.7 * window.innerWidth - 60")
        tab.close()


#: figures whose shown drawing is cut, too small to read, or writes beyond its edge: (figure, what, pixels)
UNFIT = """
[...document.querySelectorAll('figure')].flatMap((figure) => {
  const drawn = [...figure.querySelectorAll('svg')].filter((one) => one.getBoundingClientRect().width);
  if (drawn.length !== 1) { return [[figure.id, 'drawings shown', drawn.length]]; }
  const frame = drawn[0].getBoundingClientRect(), scale = frame.width / drawn[0].viewBox.baseVal.width;
  const found = [[figure.id, 'right end', frame.right - innerWidth], [figure.id, 'scale', 0.9 - scale]];
  for (const one of drawn[0].querySelectorAll('text')) {
    const box = one.getBoundingClientRect();
    found.push([figure.id, one.textContent, Math.max(frame.left - box.left, box.right - frame.right)]);
  }
  return found.filter(([id, what, excess]) => excess > (what === 'scale' ? 0 : 2));
})
"""


@pytest.mark.parametrize("kind", [*KINDS, "rekey", "detector"])
def test_on_a_narrow_window_every_drawing_is_whole_and_readable(
    chrome: Chrome, pages: dict[str, Path], kind: str
) -> None:
    tab = chrome.open(pages[kind].as_uri(), 360)
    assert tab.evaluate("document.querySelectorAll('figure').length") >= 1
    assert tab.evaluate(UNFIT) == []
    tab.close()


@pytest.mark.parametrize("width", [360, 1400])
def test_wide_tables_keep_their_first_column(chrome: Chrome, pages: dict[str, Path], width: int) -> None:
    tab = chrome.open(pages["run"].as_uri(), width)
    tab.evaluate(OPEN_ALL)
    moved = tab.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((box) => box.querySelector('tbody th') && "
        "box.scrollWidth > box.clientWidth + 40).map((box) => { box.scrollLeft = 10000; "
        "const head = box.querySelector('tbody th'); "
        "return [box.getAttribute('aria-label'), head.getBoundingClientRect().left "
        "- box.getBoundingClientRect().left]; })"
    )
    assert moved or width > 360
    assert [name for name, left in moved if left < -1] == []
    tab.close()


def test_it_is_read_without_its_script(chrome: Chrome, pages: dict[str, Path]) -> None:
    tab = chrome.open("about:blank", 1400, 900)
    tab.command("Emulation.setScriptExecutionDisabled", {"value": True})
    tab.command("Page.navigate", {"url": pages["run"].as_uri()})
    tab.command("Emulation.setScriptExecutionDisabled", {"value": False})
    tab.wait("document.readyState === 'complete'")
    assert not tab.evaluate("document.querySelector('.filter')"), "the script did not run"
    summary = "document.querySelector('#handshakes details.fold > summary')"
    tab.evaluate(f"{summary}.focus()")
    assert tab.evaluate(f"document.activeElement === {summary}")
    tab.evaluate(f"{summary}.click()")
    assert tab.evaluate(f"{summary}.parentElement.open")
    tab.close()

"""The live page at its moments: what it shows, what it says in words, and nothing of another run."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from chrome import Chrome, Tab
from live_moments import MOMENTS, NOW_NS, World, arrange, served
from live_world import RUN_ID

from waiting import LIMIT_S

WIDTHS_PX = (360, 1400)
LEAST_CONTRAST = 4.5
CONTRAST = (Path(__file__).with_name("contrast.js")).read_text(encoding="utf-8")
ROW = "document.querySelectorAll('#rows tbody tr')"


def text(tab: Tab, selector: str = "body") -> str:
    found: str = tab.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
    return found


def opened(chrome: Chrome, url: str, width: int, *, dark: bool = False) -> Tab:
    tab = chrome.open(url, width, dark=dark)
    tab.wait("document.body.dataset.ready === 'yes'")
    return tab


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("width", WIDTHS_PX)
def test_each_moment_fits_its_window_and_fetches_nothing_from_elsewhere(
    chrome: Chrome, tmp_path: Path, moment: str, width: int
) -> None:
    world = World(tmp_path)
    arrange(world, moment)
    with served(world) as server:
        for dark in (False, True):
            tab = opened(chrome, server.url, width, dark=dark)
            assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert tab.evaluate(f"({CONTRAST})({LEAST_CONTRAST})") == []
            unnamed = (
                "[...document.querySelectorAll('svg, [role=region], [role=progressbar], section')]"
                ".filter((n) => !n.getAttribute('aria-label') && !n.getAttribute('aria-labelledby')).length"
            )
            assert tab.evaluate(unnamed) == 0
            assert tab.problems == []
            assert all(address.startswith((server.url, "data:")) for address in tab.requests)
            tab.close()


def test_before_a_run_it_says_how_to_begin_one(chrome: Chrome, tmp_path: Path) -> None:
    with served(World(tmp_path)) as server:
        tab = opened(chrome, server.url, 1400)
        assert "No run is at work." in text(tab) and "make run SCENARIO=smoke" in text(tab)
        for part in ("#cells", "#series", "#watching", "#end"):
            assert tab.evaluate(f"document.querySelector('{part}').hidden"), part
        tab.close()


def test_the_first_cell_has_no_figures_yet(chrome: Chrome, tmp_path: Path) -> None:
    world = World(tmp_path)
    arrange(world, "first")
    with served(world) as server:
        tab = opened(chrome, server.url, 1400)
        assert "0 of 15 cells. Now cs-mlkem512-aesgcm-falcon512" in text(tab, "#now")
        assert "MAVLink session" in text(tab, "#now") and "first one" in text(tab, "#now")
        assert tab.evaluate("document.getElementById('cells').hidden")
        tab.close()


@pytest.mark.parametrize("width", WIDTHS_PX)
def test_midway_it_shows_cells_figures_series_and_what_happens(
    chrome: Chrome, tmp_path: Path, width: int
) -> None:
    world = World(tmp_path)
    arrange(world, "running")
    with served(world) as server:
        tab = opened(chrome, server.url, width)
        assert "12 of 30 cells. Now cs-hqc128-ascon128a-mldsa44, watched, repetition 3 (canary)." in text(
            tab, "#now"
        )
        assert "02:05" in text(tab, "#facts"), "130 s were left 5 s ago"
        assert "sees the canary" in text(tab, "#detectors") and "ATTACK" not in text(tab, "#detectors")
        assert tab.evaluate("document.querySelectorAll('#detectors .bad').length") == 0
        assert tab.evaluate(f"{ROW}.length") == 12
        assert "a neighbour used 41 % of a core" in tab.evaluate(f"{ROW}[9].textContent")
        for name, count in (("handshake", 11), ("latency", 24), ("loss", 12), ("goodput", 12)):
            assert tab.evaluate(f"document.querySelectorAll('#figure-{name} circle').length") == count, name
        for name in ("link", "goodput", "cpu", "machine", "detector"):
            assert tab.evaluate(f"document.querySelectorAll('#panel-{name} polyline').length") >= 2, name
        for kind in ("rekey", "impairment", "attack", "canary"):
            assert tab.evaluate(f"document.querySelectorAll('#panel-link .band.{kind}').length") >= 1, kind
        legend = text(tab, "#bands-legend")
        assert "known attack" in legend and "impaired link" in legend
        folded = tab.evaluate("document.getElementById('folded').textContent")
        assert "3 drawings without data" in folded and "no thermal zone" in folded and "synthetic" in folded
        assert tab.evaluate("document.getElementById('panel-temperature')") is None

        world.database.gone = True
        tab.wait("document.getElementById('note').textContent.includes('InfluxDB cannot be reached')")
        assert tab.evaluate(f"{ROW}.length") == 12, "what files tell stays"
        assert tab.evaluate("document.querySelectorAll('#panels polyline').length") == 0
        world.database.gone = False
        tab.wait("document.querySelectorAll('#panels polyline').length > 0")
        assert tab.evaluate("document.getElementById('note').textContent") == ""

        assert world.store is not None
        world.store.unlock()
        tab.wait("document.body.dataset.moment === 'stopped'")
        assert "killed" in text(tab, "#facts") and f"./pqlab resume {RUN_ID}" in text(tab, "#now")
        assert tab.evaluate("document.getElementById('series').hidden"), "no series of a run that is dead"
        tab.close()


def test_a_fold_stays_open_and_focus_stays_where_it_is(chrome: Chrome, tmp_path: Path) -> None:
    world = World(tmp_path)
    arrange(world, "running")
    with served(world) as server:
        tab = opened(chrome, server.url, 1400)
        tab.evaluate("document.querySelector('#folded summary').focus()")
        tab.evaluate("document.querySelector('#folded').open = true")
        tab.evaluate("document.querySelector('#panels').firstElementChild.dataset.old = 'yes'")
        tab.wait("!document.querySelector('#panels').firstElementChild.dataset.old")
        assert tab.evaluate("document.activeElement === document.querySelector('#folded summary')")
        assert tab.evaluate("document.querySelector('#folded').open")
        focusable = tab.evaluate(
            "[...document.querySelectorAll('a, summary, [tabindex]')]"
            ".filter((n) => n.checkVisibility()).length"
        )
        assert focusable == 3, "two folds and the table, by keyboard"
        tab.close()


def test_a_run_that_ended_has_a_link_to_its_report(chrome: Chrome, tmp_path: Path) -> None:
    page = "<!doctype html><title>r</title><style>p { color: red }</style><p id=p>the report</p>"
    world = World(tmp_path, page)
    arrange(world, "ended")
    with served(world) as server:
        tab = opened(chrome, server.url, 1400)
        assert "The run has ended: 15 cells, 14 pass, 1 invalid." in text(tab, "#now")
        assert tab.evaluate(f"{ROW}.length") == 15
        assert tab.evaluate("document.getElementById('series').hidden")
        tab.evaluate("document.querySelector('#end a').click()")
        tab.wait("document.getElementById('p') !== null && document.readyState === 'complete'")
        assert text(tab, "#p") == "the report"
        assert tab.evaluate("getComputedStyle(document.getElementById('p')).color") == "rgb(255, 0, 0)"
        tab.close()


def test_an_agent_that_is_gone_is_told(chrome: Chrome, tmp_path: Path) -> None:
    world = World(tmp_path)
    arrange(world, "agent-gone")
    with served(world) as server:
        tab = opened(chrome, server.url, 1400)
        note = text(tab, "#note")
        assert "No sample of the drone for 31 s" in note and "./pqlab doctor" in note
        tab.close()


def test_it_answers_to_this_machine_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    arrange(world, "running")
    with served(world) as server:
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(server.url + "state.json", timeout=LIMIT_S) as reply:
            state: dict[str, Any] = json.load(reply)
            assert state["run"]["run_id"] == RUN_ID and state["now_ns"] == NOW_NS
            assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        for address, host, code in (
            (server.url, "elsewhere.example", 403),
            (server.url + "../etc", "127.0.0.1", 404),
        ):
            request = urllib.request.Request(address, headers={"Host": host})
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(request, timeout=LIMIT_S)
            assert error.value.code == code
            error.value.close()

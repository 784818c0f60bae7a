"""What a plan asks of its links, reckoned from messages, heads and seals; what does not fit is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.linkload import beyond_links, traffic_bit_s
from pqevidence.plan import make_cells
from pqevidence.scenario import Scenario, load_scenario

TEXT = """\
schema: pqlab/scenario/v1
name: narrow
suites: [cs-mlkem768-aesgcm-mldsa65]
traffic: {source: embedded, rate_hz: 320, session_s: 5}
bulk: {size_bytes: 972, rates_pps: [10, 100, 1000], step_s: 2}
conditions:
  - name: direct
  - name: wide
    link: {up: {rate_kbps: 9000}, down: {rate_kbps: 9}}
  - name: slow
    link: {up: {rate_kbps: 100}}
"""


def scenario(folder: Path, text: str = TEXT) -> Scenario:
    file = folder / "narrow.yml"
    file.write_text(text)
    return load_scenario(str(file))


def told(asked: Scenario) -> list[str]:
    return beyond_links(asked, make_cells(asked, None))


def test_traffic_and_bulk_beyond_a_link_are_a_sentence_each(tmp_path: Path) -> None:
    asked = scenario(tmp_path)
    traffic, bulk = told(asked)
    need = traffic_bit_s(asked)
    assert 200_000 < need < 350_000
    assert traffic == (
        "beyond the link: slow carries 100 kbit/s to the ground, traffic of 320 messages a second needs "
        f"{need / 1e3:.3g} kbit/s: {100 * (1 - 100_000 / need):.0f} % of it cannot arrive"
    )
    # 972 bytes, 28 of IP and UDP, 24 of the seal: 1024 bytes
    assert bulk == (
        "beyond the link: slow carries 100 kbit/s to the ground, bulk needs more in 2 of 3 rungs: "
        "what 1000 datagrams a second offer in 2 s takes it 164 s"
    )


def test_what_fits_and_what_has_no_rate_says_nothing(tmp_path: Path) -> None:
    fits = TEXT.replace("rate_kbps: 100}", "rate_kbps: 10000}")
    assert told(scenario(tmp_path, fits)) == []
    assert told(scenario(tmp_path, TEXT.replace("up: {rate_kbps: 100}", "down: {rate_kbps: 1}"))) == []
    # of a condition without cells nothing is said
    assert beyond_links(scenario(tmp_path), []) == []


def test_bytes_a_second_are_those_of_the_messages_with_heads_and_seal(tmp_path: Path) -> None:
    """Twice the rate: what has a period of its own does not scale, the rest does."""
    once = traffic_bit_s(scenario(tmp_path))
    twice = traffic_bit_s(scenario(tmp_path, TEXT.replace("rate_hz: 320", "rate_hz: 640")))
    assert 1.9 < twice / once < 2.0
    # 322 datagrams of 21 to 60 bytes with 52 around each
    assert 322 * 8 * (21 + 52) < once < 322 * 8 * (60 + 52)


def test_an_event_that_narrows_the_link_is_named(tmp_path: Path) -> None:
    event = "    events: [{kind: link, at_s: 1, for_s: 2, link: {up: {rate_kbps: 64}}}]\n"
    asked = scenario(tmp_path, TEXT.replace("rate_kbps: 100}}\n", "rate_kbps: 10000}}\n" + event))
    lines = told(asked)
    assert len(lines) == 2
    assert all(
        line.startswith("beyond the link: slow (its event at 1 s) carries 64 kbit/s") for line in lines
    )


def test_of_a_trace_the_mean_over_time_counts() -> None:
    asked = load_scenario("radio-trace")
    assert told(asked) == []
    asked.data["traffic"]["rate_hz"] = 320
    lines = told(asked)
    assert [line.partition(" carries ")[0] for line in lines] == [
        "beyond the link: independent",
        "beyond the link: trace (its trace, in the mean)",
    ]


@pytest.mark.parametrize("name", ["radios", "radios-narrow", "baseline", "lossy-links", "radio-trace"])
def test_what_is_shipped_fits_its_links(name: str) -> None:
    assert told(load_scenario(name)) == []

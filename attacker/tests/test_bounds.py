"""Refusals: other addresses, other rates, other lengths. This program must not be pointed elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from pqattack.__main__ import main
from pqattack.bins import SentBins
from pqattack.bounds import AIRS, BIN_NS, MAX_BIN_COUNT, MAX_RATE_PPS, from_environment
from pqattack.errors import BoundsError, SettingsError
from pqattack.settings import KINDS, Episode

LAB = {
    "PQATTACK_HERE": "198.18.2.60", "PQATTACK_DRONE": "198.18.2.20", "PQATTACK_GCS": "198.18.2.30",
    "PQATTACK_LINK": "198.18.2.50",
}  # fmt: skip


def test_the_labs_own_addresses_are_taken() -> None:
    found = from_environment(LAB)
    assert (found.of("drone"), found.other("drone")) == ("198.18.2.20", "198.18.2.30")
    assert (found.of("gcs"), found.other("gcs")) == ("198.18.2.30", "198.18.2.20")


@pytest.mark.parametrize("name", LAB)
@pytest.mark.parametrize(
    "address",
    ["192.0.2.1",
     "198.18.1.20", "198.18.3.30", "198.18.4.20", "198.19.2.20", "127.0.0.1", "0.0.0.0", "255.255.255.255",
     "198.18.2.0", "198.18.2.255", "198.18.2.20/24", "example.invalid", "::1", "", " 198.18.2.20",
     "3323068948"],
)  # fmt: skip
def test_no_other_address_is(name: str, address: str) -> None:
    with pytest.raises(BoundsError) as caught:
        from_environment({**LAB, name: address})
    assert name in str(caught.value)


def test_an_address_given_twice_is_refused() -> None:
    with pytest.raises(BoundsError, match="one and the same"):
        from_environment({**LAB, "PQATTACK_GCS": LAB["PQATTACK_DRONE"]})


@pytest.mark.parametrize("command", ["attacker", "tap"])
def test_the_process_ends_with_4_and_says_why(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, address in {**LAB, "PQATTACK_DRONE": "192.0.2.7"}.items():
        monkeypatch.setenv(name, address)
    assert main([command]) == 4
    told = capsys.readouterr().err
    assert "192.0.2.7" in told and str(AIRS[0]) in told and "next:" in told


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["attacker", "192.0.2.1"]) == 2
    assert "usage:" in capsys.readouterr().err


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_back_as_it_was_written(kind: str) -> None:
    given: dict[str, Any] = {"kind": kind, "for_s": 2, "rate_pps": 5, "seed": 9}
    if kind == "pulsing":
        given |= {"pulse_on_ms": 200, "pulse_off_ms": 800}
    if kind == "handshake-flood":
        given |= {"target": "gcs"}
    episode = Episode.parse(given)
    assert Episode.parse(episode.as_dict()) == episode
    assert episode.benign == (kind in ("stray", "stray-auth", "stale-epoch"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rate_pps": MAX_RATE_PPS + 1}, "rate_pps"),
        ({"rate_pps": 0}, "rate_pps"),
        ({"rate_pps": True}, "rate_pps"),
        ({"rate_pps": float("nan")}, "rate_pps"),
        ({"rate_pps": float("inf")}, "rate_pps"),
        ({"rate_pps": 10**400}, "rate_pps"),
        ({"for_s": 120.1}, "for_s"),
        ({"for_s": None}, "for_s"),
        ({"for_s": -1}, "for_s"),
        ({"size_bytes": 1401}, "size_bytes"),
        ({"size_bytes": 31}, "size_bytes"),
        ({"size_bytes": 64.0}, "size_bytes"),
        ({"kind": "flood "}, "kind"),
        ({"kind": ["flood"]}, "kind"),
        ({"target": "192.0.2.1"}, "target"),
        ({"target": "link"}, "target"),
        ({"path": "out"}, "path"),
        ({"address": "192.0.2.1"}, "address"),
        ({"port": 53}, "port"),
        ({"kind": "pulsing"}, "pulse_on_ms"),
        ({"pulse_on_ms": 5}, "pulse_on_ms"),
        ({"kind": "stray", "rate_pps": 21}, "rate_pps"),
        ({"kind": "handshake-flood", "target": "gcs", "rate_pps": 2001}, "rate_pps"),
        ({"kind": "handshake-flood", "target": "drone"}, "gcs"),
        ({"kind": "handshake-flood", "target": "gcs", "path": "link"}, "direct"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_it_never_does(change: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        Episode.parse({"kind": "flood", "for_s": 1, **change})


@pytest.mark.parametrize("given", [None, [], "flood", 7])
def test_no_mapping_is_no_attack(given: Any) -> None:
    with pytest.raises(SettingsError):
        Episode.parse(given)


# ---------------------------------------------------------------------- bins


def test_a_bin_never_holds_more_than_the_greatest_rate_gives() -> None:
    bins = SentBins()
    at_ns = 77 * BIN_NS + 5
    assert [bins.admit(at_ns) for _ in range(MAX_BIN_COUNT + 3)] == [True] * MAX_BIN_COUNT + [False] * 3
    assert not bins.admit(at_ns + BIN_NS - 6)
    assert bins.admit(at_ns + BIN_NS)
    assert bins.sent == 0, "admitted is not sent"


def test_bins_count_by_real_time() -> None:
    bins = SentBins()
    assert (bins.first_ns, bins.sent) == (None, 0)
    for at_ns in (3 * BIN_NS, 3 * BIN_NS + 7, 4 * BIN_NS - 1, 9 * BIN_NS):
        bins.add(at_ns)
    assert bins.counts == {3: 3, 9: 1}
    assert (bins.first_ns, bins.last_ns, bins.sent) == (3 * BIN_NS, 9 * BIN_NS, 4)


@pytest.mark.parametrize("lab", [2, 3, 4])
def test_another_labs_attacker_reaches_that_lab_alone(lab: int) -> None:
    own = {name: address.replace("198.18.2.", f"198.18.{lab}2.") for name, address in LAB.items()}
    assert from_environment(own).drone == f"198.18.{lab}2.20"
    for name in own:
        with pytest.raises(BoundsError, match="more than one lab"):
            from_environment({**own, name: LAB[name]})


@pytest.mark.parametrize("address", ["198.18.12.20", "198.18.52.20", "198.18.21.20", "198.18.24.20"])
def test_what_is_no_labs_air_is_refused(address: str) -> None:
    with pytest.raises(BoundsError, match="no host of a lab's air network"):
        from_environment({**LAB, "PQATTACK_DRONE": address})

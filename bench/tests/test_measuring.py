"""What is read from /proc, from span rows and from rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pqbench import floor, machine, native, peers
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import of_handshakes, paired_ratio
from pqbench.forwarding import summary
from pqbench.handshakes import CRITICAL_PATH, handshakes_of
from pqbench.machine import Reading
from pqtunnel.quiet import Probe

S = 1_000_000_000


def reading(
    time_s: float, load: float, busy_s: float, own_s: float | None, waited_ns: int = 3_000
) -> Reading:
    own_ns = None if own_s is None else int(own_s * S)
    waiting = Probe(100, 500_000, waited_ns, waited_ns)
    return Reading(time_s, (load, load, load), int(busy_s * S), 0, own_ns, waiting)


def test_a_quiet_machine_is_quiet() -> None:
    # a load average says nothing: idle cores are quiet whatever waits elsewhere
    said = machine.verdict(reading(0, 3.0, 0, 0), reading(100, 1.5, 91, 90))
    assert (said["is_busy"], said["foreign_cpu_pct"]) == (False, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (reading(0, 0.1, 0, 0, 400_000), reading(100, 1, 90, 90), "waits 0.40 ms"),
        (reading(0, 0.1, 0, 0), reading(100, 1, 90, 90, 400_000), "after the run"),
        (reading(0, 0.1, 0, 0), reading(100, 1, 90, 60), "30.0 %"),
        (reading(0, 0.1, 0, None), reading(100, 1, 90, None), "cannot be read"),
    ],
)
def test_a_busy_machine_is_said_to_be_busy(before: Reading, after: Reading, word: str) -> None:
    said = machine.verdict(before, after)
    assert said["is_busy"]
    assert word in said["reasons"][0]


def test_cpu_is_summed_over_processes_and_threads(tmp_path: Path) -> None:
    for pid, task, spent in ((1, 1, 100), (1, 2, 20), (7, 7, 3)):
        folder = tmp_path / str(pid) / "task" / str(task)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(f"{spent} 5 6\n")
    assert machine.process_cpu_ns([1, 7], tmp_path) == 123


def test_busy_time_leaves_idle_and_steal_out(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 1000 50 4 5 70 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    tick_ns = machine.system_busy_ns(tmp_path) // 15
    assert machine.system_busy_ns(tmp_path) == 15 * tick_ns
    assert machine.steal_ns(tmp_path) == 70 * tick_ns


def span(host_id: str, step: str, kind: str, start: int, end: int) -> dict[str, Any]:
    return {"handshake_id": host_id, "step": step, "kind": kind, "start_ns": start, "end_ns": end}


def test_wall_is_the_drones_and_crypto_is_of_both() -> None:
    place = {step: n for n, step in enumerate(CRITICAL_PATH)}
    spans = {step: span("a", step, "crypto", 100 * n, 100 * n + 10 + n) for step, n in place.items()}
    rows = {
        "drone": [spans["verify"], spans["encaps"], span("a", "handshake", "wall", 0, 1_000)],
        "gcs": [spans["keygen"], spans["sign"], spans["decaps"], span("a", "handshake", "wall", 0, 9_000)],
    }
    assert handshakes_of(rows) == [{"wall_ms": 0.001, "crypto_ms": 60 / 1e6, "keygen_ms": 10 / 1e6}]
    rows["gcs"].pop(1)  # a handshake without all of its primitives is no figure
    assert handshakes_of(rows) == []


def taken(*pairs: tuple[float, float]) -> dict[str, Any]:
    """Handshakes of (wall, key generation), ms."""
    return of_handshakes([{"wall_ms": w, "crypto_ms": w / 2, "keygen_ms": k} for w, k in pairs])


def test_a_floor_is_compared_as_it_is() -> None:
    mine, least = taken((3.0, 1.0), (3.0, 1.0)), taken((2.0, 0.5), (2.0, 0.5))
    said = floor.beside("cs-mlkem768-aesgcm-mldsa65", mine, least)
    assert said == {"floor_median_ms": 2.0, "floor_ratio": 1.5}


def test_tries_at_a_mceliece_key_are_not_compared() -> None:
    """Two series with the same work and other luck: their walls differ twofold, the ratio does not."""
    mine, least = taken((41.0, 40.0), (21.0, 20.0), (81.0, 80.0)), taken((20.5, 20.0), (10.5, 10.0))
    said = floor.beside("cs-classicmceliece348864-aesgcm-mldsa44", mine, least)
    assert said["floor_ratio"] == pytest.approx((15.0 + 1.0) / (15.0 + 0.5), abs=1e-3)


def test_without_a_floor_no_ratio_is_told() -> None:
    none = of_handshakes([])
    assert none["missing"] == "no handshake completed"
    assert floor.beside("cs-mlkem768-aesgcm-mldsa65", taken((1.0, 0.1)), none) == {
        "floor_missing": "no handshake completed"
    }
    assert "floor_ratio" not in floor.beside("cs-mlkem768-aesgcm-mldsa65", none, taken((1.0, 0.1)))


def test_waking_up_is_half_of_what_two_sleepers_lose() -> None:
    rounds = [{"asleep": True, "waited_us": us} for us in (58.0, 60.0, 99.0)]
    rounds += [{"asleep": False, "waited_us": us} for us in (9.0, 10.0, 400.0)]
    assert floor.wake_figures(rounds) == {"n": 6, "wake_up_us": 25.0, "asleep_us": 30.0, "awake_us": 5.0}
    assert "missing" in floor.wake_figures(rounds[:3])


def test_where_others_have_the_processor_waking_up_has_no_figure() -> None:
    rounds = [{"asleep": True, "waited_us": 60.0}, {"asleep": False, "waited_us": 8_000.0}]
    assert floor.wake_figures(rounds) == {
        "missing": "asking all the time took longer than sleeping (4000 µs): too busy here"
    }


def test_a_links_handshake_is_put_together_from_both_ends() -> None:
    dialled = {"warm_up": 1, "handshakes": [{"wall_ns": 4_000_000, "crypto_ns": 500_000}]}
    station = [{"keygen_ns": 9, "crypto_ns": 99}, {"keygen_ns": 100_000, "crypto_ns": 1_500_000}]
    taken = native.joined(dialled, {"handshakes": station})
    assert taken == [{"wall_ms": 4.0, "crypto_ms": 2.0, "keygen_ms": 0.1}]
    with pytest.raises(ChildFailed, match=r"1 \+ 1 handshakes, the station 1"):
        native.joined(dialled, {"handshakes": station[1:]})


def test_a_rate_with_a_refusal_in_it_is_no_figure() -> None:
    told = {"completed": 400, "refused": 0, "first_refusal": "", "seconds": 0.1}
    told |= {"cpu_before_ns": 5_000_000, "cpu_after_ns": 85_000_000}
    before: dict[str, Any] = {"cpu_ns": 0, "handshakes": []}
    after = {"cpu_ns": 121_500_000, "handshakes": [{}] * 405}
    found = native.rate_figures(told, before, after)
    assert (found["n"], found["rate_hz"]) == (400, 4_000.0)
    assert (found["station_cpu_ms"], found["drone_cpu_ms"]) == (0.3, 0.2)
    with pytest.raises(ChildFailed, match="1 of 401 handshakes were refused, the first: hs_rate_limited"):
        native.rate_figures(told | {"refused": 1, "first_refusal": "hs_rate_limited"}, before, after)
    with pytest.raises(ChildFailed, match="none was completed"):
        native.rate_figures(told | {"completed": 0}, before, after)


def test_rounds_are_paired() -> None:
    assert paired_ratio([2, 30, 8], [1, 10, 8]) == 2
    assert paired_ratio([1, 2], [1]) is None
    assert paired_ratio([1.0], [0.0]) is None


def test_a_round_that_failed_is_no_figure() -> None:
    good = {
        "latencies_us": [1.0, 3.0],
        "sent_count": 2,
        "lost_count": 0,
        "received_hz": 320.0,
        "cpu_us_per_packet": 4.0,
        "machine_cpu_us_per_packet": 9.0,
    }
    assert summary([good, good], [good, good])["cpu_ratio_to_bare"] == 1
    assert summary([good, {"missing": "none arrived"}], [good, good]) == {"missing": "none arrived"}
    assert summary([good], [{"missing": "it ended"}])["cpu_ratio_to_bare"] is None


def test_a_peers_own_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", tmp_path)
    (tmp_path / "boringtun.missing").write_text("does not build: error: no such crate\n")
    with pytest.raises(PeerMissing, match="boringtun does not build: error: no such crate"):
        peers.binary("boringtun")
    with pytest.raises(PeerMissing, match="is not in this image"):
        peers.binary("rosenpass")


def test_a_child_that_ends_says_why() -> None:
    command = ["sh", "-c", "echo broken >&2; exit 3"]
    with child("a peer", command) as started, pytest.raises(ChildFailed) as told:
        started.wait_ready()
    assert "a peer ended: broken" in str(told.value)
    with pytest.raises(ChildFailed, match="ended with 3"):
        output_of(["sh", "-c", "exit 3"])


def test_a_child_does_not_outlive_its_block() -> None:
    with child("sleeper", ["sh", "-c", "echo ready; exec sleep 60"]) as sleeper:
        sleeper.wait_ready()
        assert sleeper.process.poll() is None
    assert sleeper.process.poll() == -9

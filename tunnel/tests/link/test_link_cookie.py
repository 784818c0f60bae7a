"""A `pqlink` station that strangers knock at without end: drones whose Hello takes its time get in all the
same, because they come back with it first (docs/PROTOCOL.md, section 4). Real processes on loopback; the
way between drone and station is a relay that keeps every byte for half a round trip."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from link_kit import fields, program
from test_pqlink import SUITE, WAIT_S, SpecEnd, identities, wait_for
from test_station import Station, Stream, both_ways, station_in

from crowd import A_SECOND, ROUND_TRIP_S, SOURCES, Distance, knocking
from early_kit import RETRY, EarlyDrone, early_drone, held_to_what_was_given
from pqspec.handshake import GcsHandshake, PskStore
from pqtunnel.errors import BadLength, HandshakeError
from pqtunnel.primitives import Primitives
from pqtunnel.trace import Tracer
from waiting import free_port


def fly(station: Station, handshake: str, spread_ms: int, packets: int = 4) -> dict[str, str]:
    """The whole fleet dials within `spread_ms`; what the farm tells."""
    words = [
        program("farm"),
        station.drones,
        station.folder / "gcs.pub",
        handshake,
        f"127.0.0.1:{station.ports['gcs']}",
        SUITE,
        packets,
        spread_ms,
        1,
    ]
    flown = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=2 * WAIT_S)
    assert flown.returncode == 0, flown.stderr
    return fields(flown.stdout.split())


def fleet_of(station: Station, count: int) -> None:
    for number in range(count):
        host = f"127.0.1.{number + 1}"  # the farm binds each drone's application there
        made = station.peer("add", f"drone-{number:02}", f"{host}:14560", f"{host}:14550")
        assert made.returncode == 0, made.stderr


DRONES = 8


@pytest.mark.skipif(sys.platform != "linux", reason="loopback has 127.0.0.0/8 on Linux")
@pytest.mark.parametrize(
    ("name", "sources", "rate", "count"),
    [
        ("64 sources, 31 a second each", SOURCES, A_SECOND, 100_000),
        ("as fast as it goes", SOURCES, 0, 100_000),
    ],
)
def test_drones_with_a_late_hello_get_in_at_once_whoever_knocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, sources: int, rate: int, count: int
) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        fleet_of(station, DRONES)
        station.start()
        way = Distance(("127.0.0.1", station.ports["handshake"]), ROUND_TRIP_S / 2)
        stack.callback(way.close)
        with knocking(station.ports["handshake"], sources, rate, count):
            wait_for("a full room", lambda: station.status().get("hs_evicted", 0) >= 256)
            before = station.status()
            result = fly(station, f"127.0.0.1:{way.port}", 2000)
            told = station.status()
        with capsys.disabled():
            spent = {key: told.get(key, 0) - before.get(key, 0) for key in ("hs_started", "hs_evicted")}
            print(
                f"\n{name}: {result['completed']} of {DRONES} in, {result['dialled']} dials, half after "
                f"{result['t50_ms']} ms, all after {result['t100_ms']} ms, early {result['early']}; "
                f"meanwhile {spent}; load average {os.getloadavg()[0]:.1f}"
            )
        assert int(result["completed"]) == int(result["dialled"]) == DRONES, "each at its first dial"
        assert result["lost"] == "0"
        assert told["hs_completed"] == DRONES
        for one in told["drone"]:
            assert one["refusals"] == 0, one
        assert len(station.log().splitlines()) < 5_000, "a flood of strangers is no flood of lines"


HALF = 16


@pytest.mark.skipif(sys.platform != "linux", reason="loopback has 127.0.0.0/8 on Linux")
def test_half_a_fleet_gets_in_from_the_very_address_that_strangers_knock_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        fleet_of(station, HALF)
        station.start()
        way = Distance(("127.0.0.1", station.ports["handshake"]), ROUND_TRIP_S / 2)
        stack.callback(way.close)
        with knocking(station.ports["handshake"], 1, 0, 100_000):
            wait_for("a full room", lambda: station.status().get("hs_evicted", 0) >= 256)
            result = fly(station, f"127.0.0.1:{way.port}", 1000)
            told = station.status()
        with capsys.disabled():
            print(f"\n{result['completed']} of {HALF} in, {result['dialled']} dials, {result['early']} early")
        assert int(result["completed"]) == HALF and int(result["dialled"]) <= 1.1 * HALF
        assert "hs_rate_limited" not in told


# ---------------------------------------------------------------------- the frames, by docs/PROTOCOL.md alone


def taught(station: Station, name: str, native: Primitives) -> EarlyDrone:
    psk, identity = identities(station.keys_of(name))
    return early_drone(psk, [identity.public], native)


ROOM = 128


@pytest.mark.skipif(sys.platform != "linux", reason="loopback has 127.0.0.0/8 on Linux")
def test_who_is_sent_away_comes_back_with_its_hello_first(tmp_path: Path, native: Primitives) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        station.add("alpha")
        station.start()
        door = ("127.0.0.1", station.ports["handshake"])

        def dial(source: str) -> socket.socket:
            made = socket.create_connection(door, timeout=WAIT_S, source_address=(source, 0))
            return stack.enter_context(made)

        def counted(name: str) -> int:
            return int(station.status().get(name, 0))

        challenge = held_to_what_was_given(dial, ROOM + 1, lambda: taught(station, "alpha", native), counted)
        told = station.of("alpha")
        assert told["hs_completed"] == 1 and told["handshake_id"] == challenge[5:13].hex()
        assert told["hs_bad_mac"] == 1


def test_ends_without_these_frames_refuse_them_by_name(tmp_path: Path, native: Primitives) -> None:
    with station_in(tmp_path) as station:
        station.add("alpha")
        psk, identity = identities(station.keys_of("alpha"))
        counters: dict[str, int] = {}
        gcs = GcsHandshake(
            identity=identity,
            psks=PskStore([psk]),
            accepted=None,
            min_level=1,
            primitives=native,
            rng=os.urandom,
            tracer=Tracer(),
            counters=counters,
            rx_index=7,
        )
        challenge = b"".join(gcs.start())
        early = taught(station, "alpha", native).early(challenge)
        with pytest.raises(BadLength, match="Hello was awaited, type 8 came"):
            gcs.on_header(early[:4])
        drone = taught(station, "alpha", native)
        drone.start()
        drone.on_header(challenge[:4])
        drone.on_body(challenge[4:])
        with pytest.raises(BadLength, match="ServerHello was awaited, type 7 came"):
            drone.on_header(RETRY)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_strangers_cost_no_thread_and_their_connections_leave_nothing(tmp_path: Path) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        station.add("alpha")
        station.start()
        threads, files = Path(f"/proc/{station.pid}/task"), Path(f"/proc/{station.pid}/fd")
        before = len(list(threads.iterdir()))
        for _ in range(100):
            address = ("127.0.0.1", station.ports["handshake"])
            stack.enter_context(socket.create_connection(address, timeout=WAIT_S))
        wait_for("a hundred of them", lambda: station.status()["hs_started"] >= 100)
        assert len(list(threads.iterdir())) == before
        held = len(list(files.iterdir()))
        stack.close()
        wait_for("their end", lambda: len(list(files.iterdir())) <= held - 100)
        assert station.status()["hs_connection_lost"] == 100


def test_a_drone_that_rekeys_without_end_is_held_back_by_name_and_alone(
    tmp_path: Path, native: Primitives
) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        seats = {name: station.add(name) for name in ("alpha", "bravo")}
        station.start()
        bravo = station.drone("bravo")
        stack.callback(bravo.close)
        bravo.start()
        both_ways(bravo, seats["bravo"], station, "of bravo")
        stream = Stream(bravo, seats["bravo"])
        alpha = SpecEnd("drone", station.keys_of("alpha"), native, station.ports | {"drone": free_port()})
        stack.callback(alpha.close)
        refused = 0
        for _ in range(60):  # ten a second, or as fast as this machine goes
            try:
                alpha.dial()
            except (HandshakeError, OSError):
                refused += 1
            time.sleep(0.1)
        assert refused >= 1
        told = station.of("alpha")
        assert told["hs_rate_limited"] == told["refusals"] == refused
        assert told["hs_completed"] == 60 - refused >= 30
        stream.goes_on()
        stream.end()
        other = station.of("bravo")
        assert other["hs_completed"] == 1 and other["refusals"] == 0 and other["rx_missing"] == 0
        assert station.end(signal.SIGTERM) == 0

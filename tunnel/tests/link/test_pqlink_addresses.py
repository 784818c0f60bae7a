"""`pqlink` over IPv6 and by name: every address of a configuration, between two processes on ::1."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from link_kit import set_keys
from test_pqlink import End, pqlink, two_ends, wait_for

from waiting import free_port


def _needs_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"this kernel has no ::1 ({error})")


def _passes(sender: End, receiver: End, application: socket.socket, host: str, payload: bytes) -> None:
    """Sent again until it comes out, as traffic goes on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    came: set[bytes] = set()
    application.settimeout(0.2)

    def comes() -> bool:
        with socket.socket(family, socket.SOCK_DGRAM) as source:
            source.sendto(payload, (host, sender.plaintext))
        with contextlib.suppress(TimeoutError):
            came.add(application.recv(65_536))
        return payload in came

    wait_for(f"{payload!r} at the {receiver.role}", comes)


@pytest.mark.parametrize("dialled", ["[::1]:{}", "localhost:{}", "127.0.0.1:{}"])
def test_a_station_on_every_address_takes_both_families(tmp_path: Path, dialled: str) -> None:
    _needs_ipv6()
    keys = tmp_path / "keys"
    assert pqlink("keygen", keys).returncode == 0
    with two_ends(tmp_path, keys) as (drone, gcs):
        port = set_keys(gcs.config, handshake="[::]:{}", sealed="[::]:{}")["handshake"]
        set_keys(drone.config, handshake=dialled.replace("{}", str(port)), sealed="[::]:{}")
        gcs.start()
        drone.start()
        _passes(drone, gcs, gcs.application, "127.0.0.1", b"to the station")
        _passes(gcs, drone, drone.application, "127.0.0.1", b"to the drone")
        peer = gcs.status()["peer"]
        assert peer.startswith(("127.0.0.1:", "[::1]:")), "as people write it, not as a mapped address"
        if dialled.startswith("["):
            assert peer.startswith("[::1]:")


def test_plaintext_over_ipv6(tmp_path: Path) -> None:
    _needs_ipv6()
    keys = tmp_path / "keys"
    assert pqlink("keygen", keys).returncode == 0
    with two_ends(tmp_path, keys) as (drone, gcs), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as own:
        own.bind(("::1", 0))
        set_keys(drone.config, plaintext="[::1]:{}", application=f"[::1]:{own.getsockname()[1]}")
        gcs.start()
        drone.start()
        _passes(drone, gcs, gcs.application, "::1", b"to the station")
        _passes(gcs, drone, own, "127.0.0.1", b"to the drone")


def test_a_name_is_resolved_at_each_dial_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    assert pqlink("keygen", keys).returncode == 0
    with two_ends(tmp_path, keys) as (drone, _):
        set_keys(drone.config, handshake=f"no-such-station.invalid:{free_port()}")
        drone.start()
        log = tmp_path / "drone.log"
        wait_for("two tries", lambda: log.read_text("utf-8").count("no-such-station.invalid") >= 2)
        assert "has no address" in log.read_text("utf-8")
        set_keys(drone.config, handshake="192.0.2.256:46000")
        refused = pqlink("up", drone.config)
        assert refused.returncode == 1 and "such as 192.0.2.1:46000, [2001:db8::1]:46000" in refused.stderr

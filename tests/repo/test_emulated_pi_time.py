"""The time that the emulated Pi is served: a client's arithmetic on the answer gives back the server's
clock."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NTP_EPOCH_S = 2_208_988_800


def _module() -> ModuleType:
    sys.path.insert(0, str(ROOT / "images" / "pi"))  # machine.py lies beside it in the image
    spec = importlib.util.spec_from_file_location("pi_host", ROOT / "images" / "pihost" / "host.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.pop(0)
    return module


host = _module()


def request(version: int, sent_s: float) -> bytes:
    whole = int(sent_s)
    stamp = struct.pack("!II", whole + NTP_EPOCH_S, int((sent_s - whole) * 2**32))
    return bytes([version << 3 | 3]) + bytes(39) + stamp


def stamp(field: bytes) -> float:
    seconds, fraction = struct.unpack("!II", field)
    return float(seconds - NTP_EPOCH_S + fraction / 2**32)


@pytest.mark.parametrize("version", [3, 4])
def test_an_answer_carries_the_servers_clock(version: int) -> None:
    asked = request(version, 1_700_000_000.25)
    reply = host.answer(asked, 1_700_000_100.5, 1_700_000_100.75)
    assert len(reply) == 48
    assert (reply[0] >> 6, reply[0] >> 3 & 7, reply[0] & 7, reply[1]) == (0, version, 4, 1)
    assert reply[24:32] == asked[40:48]
    received, sent = stamp(reply[32:40]), stamp(reply[40:48])
    assert (received, sent) == pytest.approx((1_700_000_100.5, 1_700_000_100.75), abs=1e-6)


@pytest.mark.parametrize("junk", [b"", bytes(47), bytes(48), bytes([0x24]) + bytes(47)])
def test_what_is_no_question_gets_no_answer(junk: bytes) -> None:
    assert host.answer(junk, 0.0, 0.0) is None


def test_the_guest_is_reached_through_the_drones_ports() -> None:
    from pqtunnel import config

    ports = {(kind, there) for kind, _, there in host.FORWARDS}
    assert ports == {
        ("tcp", 22),
        ("tcp", config.CONTROL_PORT),
        ("udp", config.SEALED_PORT["drone"]),
        ("udp", config.PLAINTEXT_IN_PORT["drone"]),
    }
    line = " ".join(host.command(",snapshot=on"))
    assert all(f"hostfwd={kind}::{here}-:{there}" in line for kind, here, there in host.FORWARDS)
    assert host.first_login("ssh-ed25519 AAAA x", 1_700_000_000.9) == "go 1700000000 c3NoLWVkMjU1MTkgQUFBQSB4"

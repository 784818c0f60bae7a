"""The link router: control lines, settings, and IPv4 packets from its device."""

from __future__ import annotations

import json

from reader import Reader

from pqbase.lines import LineError, parse
from pqlink.control import Control
from pqlink.lease import HOLD_MAX_S, Lease
from pqlink.router import MAX_WAITING, Router
from targets import Target

DRONE, GCS = "198.18.2.20", "198.18.2.30"
_UP = b"\x45" + bytes(11) + bytes((198, 18, 2, 20, 198, 18, 2, 30))
S_NS = 1_000_000_000
_CODE = tuple(f"link/src/pqlink/{name}.py" for name in ("control", "settings", "lease"))


def _control() -> tuple[Control, Router, Lease]:
    router, lease = Router(DRONE, GCS), Lease()
    return Control(router, lease, {}), router, lease


def control(data: bytes) -> None:
    """Every line has an answer, with a code and a hint when it is refused; nobody holds the link for longer
    than the lease allows, whatever was asked."""
    served, router, lease = _control()
    now_ns = 0
    for line in data.split(b"\n"):
        try:
            request = parse(line)
        except LineError as error:
            assert error.code and error.hint
            continue
        before = router.settings
        answer = served.answer(request, now_ns)
        json.dumps(answer)
        assert answer["ok"] in (True, False)
        if not answer["ok"]:
            assert answer["code"] and answer["error"] and answer["hint"]
            assert router.settings == before, "a refused request changed the link"
        now_ns += S_NS // 10
    served.tick(now_ns + int((HOLD_MAX_S + 0.1) * S_NS))
    assert not lease.active, "the link did not heal"
    assert not any(any(v for v in side.values() if v != "uniform") for side in router.settings.values())


def packets(data: bytes) -> None:
    """No packet is invented, none is changed, and what is not between the two ends is counted."""
    reader = Reader(data)
    served, router, _ = _control()
    side = {
        "delay_ms": reader.u8(),
        "loss_pct": reader.u8() % 101,
        "duplicate_pct": reader.u8() % 101,
        "rate_kbps": reader.u16(),
        "jitter_ms": 0,
    }
    served.answer({"op": "set", "owner": "fuzz", "up": side, "down": side, "seed": reader.u8()}, 0)
    offered: set[bytes] = set()
    strangers, now_ns = 0, 0
    while reader.left:
        shape = reader.u8()
        size = reader.u8()
        packet = reader.take(size) if shape & 1 else _UP + reader.take(size)
        if packet[:1] and packet[0] >> 4 == 4 and packet[12:20] in (_UP[12:20], _UP[16:20] + _UP[12:16]):
            offered.add(packet)
        else:
            strangers += 1
        router.offer(packet, now_ns)
        now_ns += reader.u8() * 1_000_000
        assert all(out in offered for out in router.due(now_ns)), "a packet nobody sent"
    assert router.strangers == strangers
    assert len(router._heap) <= MAX_WAITING


def _control_seeds() -> dict[str, bytes]:
    def lines(*requests: object) -> bytes:
        return b"".join(json.dumps(request).encode() + b"\n" for request in requests)

    side = {
        "delay_ms": 80,
        "jitter_ms": 10,
        "loss_pct": 5,
        "rate_kbps": 500,
        "queue_ms": 100,
        "distribution": "normal",
    }
    burst = {"burst_loss": {"p_enter_pct": 1, "p_exit_pct": 30, "loss_pct": 90}, "duplicate_pct": 1}
    return {
        "seed-set": lines(
            {"op": "hello"}, {"op": "set", "owner": "c", "up": side, "down": burst, "hold_s": 3}
        ),
        "seed-life": lines(
            {"op": "set", "owner": "c", "seed": 1},
            {"op": "change", "owner": "c", "up": burst, "for_s": 2},
            {"op": "renew", "owner": "c"},
            {"op": "state"},
            {"op": "clear", "owner": "c"},
        ),
        "seed-odd": b'[]\n{"op":7}\n{"op":"set","owner":"c","up":{"delay_ms":1e999}}\n'
        + b"[" * 60_000
        + b"\n",
        "seed-number": b'{"op":"set","owner":"c","up":{"delay_ms":1' + b"0" * 400 + b"}}\n"
        b'{"op":"set","owner":"c","hold_s":1' + b"0" * 400 + b"}\n",
    }


def _packet_seeds() -> dict[str, bytes]:
    return {
        "seed-up": bytes(7) + b"\x00\x04abcd\x0a" * 4,
        "seed-odd": b"\x10\x20\x30\x00\x40\x00" + b"\x01\x03xyz\xff",
    }


TARGETS = {
    "link-control": Target(
        "requests to the link router",
        control,
        _control_seeds,
        ("base/src/pqbase/lines.py", *_CODE),
        words=[
            b'{"op":"set","owner":"c"',
            b'"up":{',
            b'"down":{',
            b'"delay_ms":',
            b'"burst_loss":{',
            b'"hold_s":',
            b'"for_s":',
            b'"seed":',
            b'"op":"change"',
            b"1e308",
            b"null",
            b"[]",
        ],
    ),
    "link-packets": Target(
        "packets through the link router",
        packets,
        _packet_seeds,
        ("link/src/pqlink/router.py", "link/src/pqlink/channel.py", "link/src/pqlink/side.py"),
        limit=1024,
    ),
}

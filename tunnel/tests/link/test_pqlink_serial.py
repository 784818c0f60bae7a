"""The serial side of a drone's `pqlink`, with a pseudo terminal as the flight controller."""

from __future__ import annotations

import contextlib
import os
import pty
import threading
from pathlib import Path

from test_pqlink import pqlink, two_ends, wait_for

NOISE = b"ArduPilot boot\r\n"


def _v1(sequence: int, payload: bytes) -> bytes:
    return bytes([0xFE, len(payload), sequence, 1, 1, 0]) + payload + b"\x12\x34"


def _v2(sequence: int, payload: bytes, signature: bytes = b"") -> bytes:
    flags = 1 if signature else 0
    return bytes([0xFD, len(payload), flags, 0, sequence, 1, 1, 30, 0, 0]) + payload + b"\x56\x78" + signature


FRAMES = [_v1(1, b"\xfd" * 9), _v2(2, b"\xfe" * 255), _v2(3, b"attitude", b"s" * 13), _v2(4, b"")]


def test_frames_of_a_serial_port_pass_one_a_datagram(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    assert pqlink("keygen", keys).returncode == 0
    controller, port = pty.openpty()
    heard = bytearray()

    def listen() -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            while piece := os.read(controller, 4096):
                heard.extend(piece)

    with two_ends(tmp_path, keys) as (drone, gcs):
        lines = [
            line
            for line in drone.config.read_text("utf-8").splitlines()
            if not line.startswith(("plaintext", "application"))
        ]
        lines.append(f'plaintext = "serial:{os.ttyname(port)}:921600"')
        drone.config.write_text("\n".join(lines) + "\n", "utf-8")
        gcs.start()
        drone.start()
        wait_for("the link", lambda: drone.status().get("state") == "up")
        wait_for("its other end", lambda: gcs.status().get("state") == "up")
        reader = threading.Thread(target=listen, daemon=True)
        reader.start()
        gcs.application.settimeout(60)
        for number in range(3):
            sent = [*FRAMES, _v2(5 + number, b"round")]
            os.write(controller, NOISE + b"".join(sent[:2]))
            os.write(controller, b"".join(sent[2:]))
            assert [gcs.application.recv(65_536) for _ in sent] == sent, "whole, in order, without the noise"
        down = _v2(9, b"command")
        gcs.application.sendto(down, ("127.0.0.1", gcs.plaintext))
        wait_for("the command", lambda: bytes(heard) == down)
        status = drone.status()
        assert int(status["serial_frames_in"]) == 15 and int(status["serial_datagrams_out"]) == 1
        assert int(status["serial_noise"]) >= 1 and "serial_frames_lost" not in status
        os.close(port)
    os.close(controller)


def test_a_port_that_is_not_there_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    assert pqlink("keygen", keys).returncode == 0
    with two_ends(tmp_path, keys) as (drone, _):
        lines = [
            line
            for line in drone.config.read_text("utf-8").splitlines()
            if not line.startswith(("plaintext", "application"))
        ]
        lines.append('plaintext = "serial:/dev/no-such-port:57600"')
        drone.config.write_text("\n".join(lines) + "\n", "utf-8")
        refused = pqlink("up", drone.config)
        assert refused.returncode == 1 and "/dev/no-such-port" in refused.stderr

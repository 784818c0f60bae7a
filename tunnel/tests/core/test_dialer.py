"""The drone's side of a connection: what leaves its socket, and what does not."""

from __future__ import annotations

import socket
import threading

import pytest
from core_kit import MLKEM, FakePrimitives, Lab, make_identity

from pqspec.shell.handshakes import SpecifiedDrone
from pqtunnel import errors, wire
from pqtunnel.endpoint.dialer import Dialer
from pqtunnel.endpoint.identity_files import DroneKeys
from waiting import LIMIT_S


@pytest.mark.parametrize("pinned", [False, True])
def test_an_unpinned_gcs_hears_not_a_byte(lab: Lab, pinned: bool) -> None:
    heard = bytearray()
    stranger = make_identity(FakePrimitives(b"other")).public
    frame = wire.Challenge(1, bytes(32), (lab.identity.public if pinned else stranger).key_id).encode()

    def listen() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(LIMIT_S)
            sock.sendall(frame)
            while chunk := sock.recv(4096):
                heard.extend(chunk)
                sock.sendall(b"\x1f\0\0\0")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        dialer = Dialer(
            listener.getsockname(),
            "127.0.0.1",
            MLKEM,
            1,
            SpecifiedDrone(DroneKeys(lab.psk, [lab.identity.public]), lab.primitives),
        )
        with pytest.raises(errors.PeerAlert if pinned else errors.PolicyRefused):
            dialer.dial(0, 0, 1, lab.drone_counters)
        thread.join(LIMIT_S)
    assert len(heard) == (4 + wire.HELLO_BODY_BYTES if pinned else 0)
    assert lab.drone_counters.get("hs_policy", 0) == (0 if pinned else 1)

"""Strangers who connect and then say as good as nothing, as a process of their own.

    python slow_peers.py HOST PORT CONNECTIONS SECONDS

Every second connection sends the bytes of a Hello frame one by one, four a second; the others are silent.
Whoever is cut off dials again a second later. Ends by itself; prints `ready` once all have dialled.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time

HELLO_HEADER = b"\x12\x00\x00\x65"


class Peer:
    """One connection, and when it next does something."""

    def __init__(self, address: tuple[str, int], drips: bool) -> None:
        self.address = address
        self.drips = drips
        self.sock: socket.socket | None = None
        self.due_s = 0.0
        self.sent = 0

    def act(self, selector: selectors.BaseSelector, now_s: float) -> None:
        self.due_s = now_s + 0.25
        try:
            if self.sock is None:
                self.sock = socket.create_connection(self.address, timeout=2)
                self.sock.setblocking(False)
                self.sent = 0
                selector.register(self.sock, selectors.EVENT_READ, self)
            elif self.drips and self.sent < 60:
                self.sock.send(HELLO_HEADER[self.sent : self.sent + 1] or b"x")
                self.sent += 1
        except OSError:
            self.drop(selector, now_s)

    def drop(self, selector: selectors.BaseSelector, now_s: float) -> None:
        if self.sock is not None:
            selector.unregister(self.sock)
            self.sock.close()
        self.sock, self.due_s = None, now_s + 1.0


def main() -> None:
    host, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    selector = selectors.DefaultSelector()
    peers = [Peer((host, port), number % 2 == 0) for number in range(count)]
    for peer in peers:
        peer.act(selector, time.monotonic())
    print("ready", flush=True)
    end_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        for peer in peers:
            if peer.due_s <= now_s:
                peer.act(selector, now_s)
        for key, _ in selector.select(timeout=0.05):
            try:
                heard = key.data.sock.recv(4096)
            except OSError:
                heard = b""
            if not heard:
                key.data.drop(selector, time.monotonic())


if __name__ == "__main__":
    main()

"""Strangers who knock and say nothing, as a process of their own.

    python strangers.py HOST PORT SOURCES RATE COUNT

From SOURCES addresses (1: the one that everybody has, 127.0.0.1; else 127.0.2.1 and on), RATE connections a
second each (0: as fast as it goes), COUNT in all. Each holds its connection until 512 younger ones are there.
Prints `knocking` with the first, and at the end how many were made and in which time.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import deque

HELD = 512


def knock(address: tuple[str, int], source: str) -> socket.socket:
    """A connection that is being made; what becomes of it nobody asks."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.bind((source, 0))
        sock.connect(address)
    except BlockingIOError:
        pass  # under way
    except OSError:
        sock.close()  # no port is free at this source just now
    return sock


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    sources, rate, count = (int(word) for word in sys.argv[3:6])
    names = ["127.0.0.1"] if sources == 1 else [f"127.0.2.{number + 1}" for number in range(sources)]
    held: deque[socket.socket] = deque()
    begun_s = time.monotonic()
    for number in range(count):
        if rate:
            pause_s = begun_s + number / (rate * sources) - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
        held.append(knock((host, port), names[number % sources]))
        if len(held) > HELD:
            held.popleft().close()
        if number == 0:
            print("knocking", flush=True)
    print(f"made={count} seconds={time.monotonic() - begun_s:.1f}", flush=True)


if __name__ == "__main__":
    main()

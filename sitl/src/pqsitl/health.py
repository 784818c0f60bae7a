"""Container health check: one question over the control port, standard library's socket alone."""

from __future__ import annotations

import os
import socket
import sys


def check(host: str = "127.0.0.1", port: int | None = None, timeout_s: float = 2.0) -> int:
    """0 when the service answers that it is well, 1 with a reason on stderr."""
    number = int(os.environ.get("PQ_CONTROL_PORT", "48070")) if port is None else port
    try:
        with socket.create_connection((host, number), timeout_s) as connection:
            connection.sendall(b'{"op":"health"}\n')
            answer = b""
            while not answer.endswith(b"\n"):
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
    except OSError as error:
        print(
            f"unhealthy: no answer on {host}:{number} ({error}); look into the container's log",
            file=sys.stderr,
        )
        return 1
    if answer.startswith(b'{"ok":true'):
        return 0
    print(f"unhealthy: {answer.decode(errors='replace').strip()}", file=sys.stderr)
    return 1

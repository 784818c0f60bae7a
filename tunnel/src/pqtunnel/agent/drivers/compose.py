"""Driver `compose`: the traffic service is resident in its own container and takes one JSON line a
command."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Final

from pqtunnel.agent.drivers.base import DriverError

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 8.0
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024


class ComposeTraffic:
    """Speaks to the control port of `pqsitl vehicle` or `pqsitl ground`; one connection a command."""

    name = "compose"

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def facts(self) -> dict[str, Any]:
        """The service's own `hello`; {"available": false, "reason": …} when it does not answer."""
        try:
            return self._ask({"op": "hello"})
        except DriverError as error:
            return {"available": False, "reason": str(error)}

    def start(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Start the source of `spec`.

        A source that runs already belongs to nobody: an agent runs one cell at a time and stops what it
        started, so it was left by an agent that died. It is stopped, and the answer says so under
        `orphan_stopped`.
        """
        request = {"op": "start", "spec": spec}
        try:
            return self._ask(request)
        except DriverError as error:
            if error.code != "busy":
                raise
        self._ask({"op": "stop"})
        return {**self._ask(request), "orphan_stopped": True}

    def stop(self) -> dict[str, Any]:
        """Stop the source; an idle service answers with empty counts."""
        return self._ask({"op": "stop"})

    def recording(self, since: int) -> dict[str, Any]:
        """The service's own answer, piece by piece."""
        return self._ask({"op": "recording", "since": since})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        where = f"traffic service at {self._address[0]}:{self._address[1]}"
        deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        try:
            with socket.create_connection(self._address, timeout=CONNECT_TIMEOUT_S) as sock:
                sock.sendall(json.dumps(request, separators=(",", ":")).encode() + b"\n")
                line = _read_line(sock, deadline_s)
        except TimeoutError as error:
            raise DriverError(
                f"{where}: no answer to {request['op']} in time", code="traffic_timeout"
            ) from error
        except OSError as error:
            raise DriverError(
                f"{where}: {error.strerror or error}", code="traffic_unreachable",
                hint="is its container up? `make lab-status`",
            ) from error  # fmt: skip
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise DriverError(f"{where}: the answer to {request['op']} is not JSON") from error
        if not isinstance(answer, dict):
            raise DriverError(f"{where}: the answer to {request['op']} is no object")
        if answer.pop("ok", False) is not True:
            raise DriverError(
                f"{where}: {answer.get('message', 'refused')}",
                code=str(answer.get("code", "traffic_driver")),
                hint=str(answer.get("hint", "")) or None,
            )  # fmt: skip
        return answer


def _read_line(sock: socket.socket, deadline_s: float) -> bytes:
    buffer = bytearray()
    while not buffer.endswith(b"\n"):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(left_s)
        chunk = sock.recv(65_536)
        if not chunk:
            break
        buffer += chunk
        if len(buffer) > MAX_ANSWER_BYTES:
            raise OSError("the answer is too long")
    return bytes(buffer)

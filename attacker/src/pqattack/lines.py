"""One JSON object a line over TCP: parsing, answers, and a client that asks one question at a time."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from pqattack.errors import AttackError, RequestError

Json = dict[str, Any]
MAX_REQUEST_BYTES: Final = 65_536


def parse_request(line: bytes) -> Json:
    """One line as a request. Raises RequestError."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON: {error}", hint="one JSON object a line") from error
    if not isinstance(request, dict):
        raise RequestError("not a JSON object", hint="one JSON object a line")
    return request


def failure(error: AttackError) -> Json:
    """An error as an answer."""
    return {"ok": False, "code": error.code, "error": str(error), "hint": error.hint}


def encode(answer: Json) -> bytes:
    """One answer as a line."""
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def ask(address: tuple[str, int], request: Json, limit_s: float) -> Json:
    """One question on a connection of its own. Raises RequestError for silence and for a refusal."""
    try:
        with socket.create_connection(address, timeout=limit_s) as connection:
            connection.sendall(encode(request))
            line = connection.makefile("rb").readline()
        answer = parse_request(line)
    except (OSError, RequestError) as error:
        raise RequestError(
            f"{address[0]}:{address[1]} does not answer `{request.get('op')}`: {error}",
            code="no_answer",
            hint="./compose/lab.sh profile attacker",
        ) from error
    if not answer.pop("ok", False):
        raise RequestError(
            str(answer.get("error")), code=str(answer.get("code")), hint=str(answer.get("hint"))
        )
    return answer

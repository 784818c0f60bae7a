"""Control channels: JSON lines to the agents, from the agents, and to the traffic source."""

from __future__ import annotations

import json
import ssl
from typing import Any, cast

from reader import Reader

from pqsitl.control import answer_line
from pqsitl.service import TrafficService
from pqtunnel import rpc
from pqtunnel.agent import server
from pqtunnel.agent.params import Params
from targets import Target, either, scene


class _Stream:
    """A TLS stream whose other end is the fuzzer: gives out `chunks`, keeps what is sent."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self.sent = b""

    def recv(self, limit: int) -> bytes:
        if not self._chunks:
            return b""
        chunk = self._chunks.pop(0)
        if len(chunk) > limit:
            self._chunks.insert(0, chunk[limit:])
        return chunk[:limit]

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def settimeout(self, _seconds: float) -> None: ...


def _chunks(reader: Reader) -> list[bytes]:
    size = 1 + reader.u8()
    rest = reader.rest()
    return [rest[at : at + size] for at in range(0, len(rest), size)]


def _method(params: Any) -> dict[str, Any]:
    """One parameter of every kind, as the agent's methods read them."""
    given = Params("event", params)
    answer = {
        "text": given.text("cell_id"),
        "whole": given.whole("count", 1, least=1, most=1000),
        "number": given.number("max_s", 1.0, least=0.0, most=60.0),
        "flag": given.flag("ledger", False),
        "object": given.object_or_null("spec"),
    }
    given.done()
    return answer


class _Server(server.RpcServer):
    """The agent's server without its listener."""

    def __init__(self) -> None:
        self._methods = {"event": _method}
        self._note = lambda _text: None
        self._cache = server.AnswerCache()


def rpc_server(data: bytes) -> None:
    """Every line is answered by one line of JSON-RPC 2.0 with code and hint; no answer says `internal`."""
    stream = _Stream(_chunks(Reader(data)))
    asked = [line for line in b"".join(stream._chunks).split(b"\n")[:-1] if line.strip()]
    _Server()._requests(cast(ssl.SSLSocket, stream))
    answers = [json.loads(line) for line in stream.sent.splitlines()]
    assert len(answers) == len(asked), f"{len(asked)} requests, {len(answers)} answers"
    for answer in answers:
        assert answer["jsonrpc"] == "2.0" and set(answer) in (
            {"jsonrpc", "id", "result"},
            {"jsonrpc", "id", "error"},
        )
        if "error" in answer:
            known = answer["error"]["data"]
            assert known["code"] != "internal" and known["hint"] and answer["error"]["message"]


class _Client(rpc.RpcClient):
    """The controller's client on a stream that is already there."""

    def __init__(self, stream: _Stream) -> None:
        self.host, self.port, self.server_name = "gcs", 1, "gcs"
        self._buffer = bytearray()
        self._socket = cast(ssl.SSLSocket, stream)


def rpc_client(data: bytes) -> None:
    """Whatever an agent answers: a result object, or an error of the RPC's own kind."""
    client = _Client(_Stream(_chunks(Reader(data))))
    try:
        result = client._exchange(b"{}\n", "id-1", "hello", 5.0, rpc.time.monotonic() + 5.0)
    except rpc.RpcError as error:
        assert error.code and error.hint is not None
        return
    assert isinstance(result, dict)


def sitl_control(data: bytes) -> None:
    """The traffic source's control: {ok: true, …} or {ok: false, code, message, hint}, never `internal`."""
    service = TrafficService("vehicle", {})
    for line in data.split(b"\n"):
        if line.strip():
            answer = answer_line(line, service.handle)
            json.dumps(answer)
            assert answer["ok"] in (True, False)
            assert answer["ok"] or (answer["code"] != "internal" and answer["hint"] and answer["message"])


def _request(**changes: Any) -> bytes:
    request = {"jsonrpc": "2.0", "id": "a", "method": "event", "params": {"cell_id": "c"}, **changes}
    return json.dumps(request).encode() + b"\n"


def _server_seeds() -> dict[str, bytes]:
    return {
        "seed-good": b"\xff" + _request(),
        "seed-two": b"\x07" + _request() + _request(id="b", method="nothing"),
        "seed-params": b"\xff"
        + _request(params={"cell_id": "c", "count": 3, "max_s": 2.5, "ledger": True, "spec": {}}),
        "seed-odd": b"\xff" + _request(id=7) + b"[]\n\n{}\nnull\n" + _request(params=[1]),
        "seed-deep": b"\xff" + b"[" * 100_000 + b"\n",
        "seed-number": b"\xff"
        + b'{"jsonrpc":"2.0","id":"a","method":"event","params":{"max_s":NaN,"count":1e999}}\n',
    }


def _client_seeds() -> dict[str, bytes]:
    return {
        "seed-result": b"\xff" + b'{"jsonrpc":"2.0","id":"id-1","result":{}}\n',
        "seed-error": b"\xff"
        + b'{"jsonrpc":"2.0","id":"id-1","error":{"code":-3,"message":"","data":{"code":"c","hint":"h"}}}\n',
        "seed-late": b"\x03"
        + b'{"jsonrpc":"2.0","id":"old","result":{}}\n{"jsonrpc":"2.0","id":null,"error":{}}\n',
        "seed-deep": b"\xff" + b"[" * 100_000 + b"\n",
    }


def _sitl_seeds() -> dict[str, bytes]:
    return {
        "seed-ops": b'{"op":"hello"}\n{"op":"status"}\n{"op":"health"}\n{"op":"stop"}\n',
        "seed-start": b'{"op":"start","spec":{"source":"embedded","rate_hz":320,"seed":1,"duration_s":9}}\n',
        "seed-odd": b'[]\nnull\n{"op":7}\n{"op":"start","spec":[1]}\nnot json\n',
        "seed-deep": b"[" * 65_000 + b"\n",
        "seed-number": b'{"op":"start","spec":{"size_bytes":1e999,"rate_hz":NaN}}\n',
    }


_WORDS = [
    b'"jsonrpc":"2.0"',
    b'"id":"a"',
    b'"method":"event"',
    b'"params":{',
    b'"cell_id"',
    b'"count"',
    b"null",
    b"true",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"\\ud800",
    b"[[[[[[[[",
    b"\n",
]

TARGETS = {
    "rpc": Target(
        "the agents' control channel (JSON lines): requests to an agent, answers to the controller",
        either(rpc_server, rpc_client),
        lambda: scene(0, _server_seeds()) | scene(1, _client_seeds()),
        (
            "tunnel/src/pqtunnel/rpc.py",
            "tunnel/src/pqtunnel/agent/server.py",
            "tunnel/src/pqtunnel/agent/params.py",
            "tunnel/src/pqtunnel/agent/idempotency.py",
        ),
        words=[*_WORDS, b'"error":{', b'"code"', b'"data"', b'"result":{}', b'"id":"id-1"'],
    ),
    "sitl-control": Target(
        "requests to the traffic source",
        sitl_control,
        _sitl_seeds,
        ("sitl/src/pqsitl/control.py", "sitl/src/pqsitl/service.py", "sitl/src/pqsitl/spec.py"),
        words=[b'{"op":"start","spec":{', b'"source"', b'"rate_hz"', b'"seed"', b'"path"', *_WORDS[6:]],
    ),
}

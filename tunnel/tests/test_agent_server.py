"""The agent's RPC server: framing, limits, and the same answer for the same request id."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rpc_kit import client_of, serving

from pqtunnel.agent.idempotency import AnswerCache, IdReusedError
from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.agent.server import MAX_CONNECTIONS, MAX_REQUEST_BYTES, MAX_STRANGERS, RpcServer
from pqtunnel.rpc import RemoteError, RpcError, TlsFiles
from waiting import LIMIT_S, wait_for, wait_until


def _raw(server: RpcServer, keys: Path) -> ssl.SSLSocket:
    context = TlsFiles.in_folder(keys / "controller").context(ssl.Purpose.SERVER_AUTH)
    return context.wrap_socket(
        socket.create_connection(server.address, timeout=LIMIT_S), server_hostname="gcs"
    )


def _ask(stream: ssl.SSLSocket, data: bytes) -> dict[str, Any]:
    stream.sendall(data)
    buffer = b""
    while not buffer.endswith(b"\n"):
        chunk = stream.recv(65_536)
        if not chunk:
            raise ConnectionError
        buffer += chunk
    answer: dict[str, Any] = json.loads(buffer)
    return answer


def test_same_id_same_answer_and_one_run(tls_folder: Path) -> None:
    ran: list[Any] = []

    def count(params: Any) -> dict[str, Any]:
        ran.append(params)
        return {"n": len(ran)}

    with serving(tls_folder, {"count": count}) as server:
        first, second = client_of(server, tls_folder), client_of(server, tls_folder)
        with first, second:
            assert first.call("count", request_id="a") == {"n": 1}
            assert second.call("count", request_id="a") == {"n": 1}
            assert second.call("count", request_id="b") == {"n": 2}
            with pytest.raises(RemoteError) as caught:
                first.call("count", {"other": 1}, request_id="a")
            assert caught.value.code == "id_reused"
    assert len(ran) == 2


def test_repetition_while_running_waits_for_the_first(tls_folder: Path) -> None:
    started, ran = threading.Event(), []

    def slow(params: Any) -> dict[str, Any]:
        ran.append(1)
        started.set()
        time.sleep(0.3)
        return {"n": len(ran)}

    with serving(tls_folder, {"slow": slow}) as server:
        answers: list[Any] = []

        def ask() -> None:
            with client_of(server, tls_folder) as client:
                answers.append(client.call("slow", request_id="x"))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    assert answers == [{"n": 1}] * 3
    assert ran == [1]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json\n", "bad_json"),
        (b"[" * 200_000 + b"\n", "bad_json"),
        (b"[1,2]\n", "bad_request"),
        (b'{"id":"1","method":"echo"}\n', "bad_request"),
        (b'{"jsonrpc":"2.0","method":"echo"}\n', "bad_id"),
        (b'{"jsonrpc":"2.0","id":null,"method":"echo"}\n', "bad_id"),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}\n', "bad_id"),
        (b'{"jsonrpc":"2.0","id":7.5,"method":"echo"}\n', "bad_id"),
        (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"echo"}\n', "bad_id"),
        (b'{"jsonrpc":"2.0","id":"1","method":["echo"]}\n', "unknown_method"),
    ],
)
def test_malformed_requests_get_an_error_and_the_connection_lives(
    tls_folder: Path, line: bytes, code: str
) -> None:
    with (
        serving(tls_folder, {"echo": lambda params: {"ok": 1}}) as server,
        _raw(server, tls_folder) as stream,
    ):
        told = _ask(stream, line)["error"]["data"]
        assert told["code"] == code and told["hint"]
        good = b'{"jsonrpc":"2.0","id":"z","method":"echo"}\n'
        assert _ask(stream, good)["result"] == {"ok": 1}


def test_an_id_may_be_a_number_and_is_another_one_than_its_text(tls_folder: Path) -> None:
    ran: list[int] = []

    def count(params: Any) -> dict[str, Any]:
        ran.append(1)
        return {"n": len(ran)}

    with serving(tls_folder, {"count": count}) as server, _raw(server, tls_folder) as stream:
        answers = [
            _ask(stream, b'{"jsonrpc":"2.0","id":%b,"method":"count"}\n' % text)
            for text in (b"7", b'"7"', b"7", b"-1", b'"7"', b"0")
        ]
    assert [(answer["id"], answer["result"]["n"]) for answer in answers] == [
        (7, 1),
        ("7", 2),
        (7, 1),
        (-1, 3),
        ("7", 2),
        (0, 4),
    ]


def test_endless_request_is_cut_off(tls_folder: Path) -> None:
    with serving(tls_folder, {}) as server, _raw(server, tls_folder) as stream:
        sent = 0
        try:
            while sent < 8 * MAX_REQUEST_BYTES:
                stream.sendall(b"x" * 65_536)
                sent += 65_536
            code = _ask(stream, b"x")["error"]["data"]["code"]
        except (ConnectionError, ssl.SSLError):
            code = "request_too_long"  # closed before all was sent: the answer went down with the connection
        assert code == "request_too_long"
        assert sent < 8 * MAX_REQUEST_BYTES


def test_connections_are_bounded(tls_folder: Path) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        held = [_raw(server, tls_folder) for _ in range(MAX_CONNECTIONS)]
        for stream in held:
            _ask(stream, b'{"jsonrpc":"2.0","id":"%d","method":"echo"}\n' % id(stream))
        with pytest.raises(RpcError):
            client_of(server, tls_folder).call("echo")
        for stream in held:
            stream.close()
        wait_for(lambda: not server._open)
        assert client_of(server, tls_folder).call("echo") == {}


@pytest.mark.parametrize("silent", [MAX_CONNECTIONS, 2 * MAX_CONNECTIONS, 2 * MAX_STRANGERS])
def test_silent_strangers_do_not_keep_the_controller_out(tls_folder: Path, silent: int) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server, contextlib.ExitStack() as held:
        known = held.enter_context(client_of(server, tls_folder))
        assert known.call("echo") == {}
        for _ in range(silent):
            held.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
        for _ in range(12):
            with client_of(server, tls_folder) as client:
                assert client.call("echo") == {}
        assert len(server._strangers) <= MAX_STRANGERS
        assert known.call("echo") == {}, "who has shown a certificate never gives way"
        gone = [note for note in server.notes if "gave way" in note]  # type: ignore[attr-defined]
        assert bool(gone) == (silent > MAX_STRANGERS)


def test_who_gave_way_before_its_thread_began_ends_quietly(
    tls_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    go_on, ended, connection = threading.Event(), threading.Semaphore(0), RpcServer._connection

    def late(server: RpcServer, stream: ssl.SSLSocket, source: str) -> None:
        assert go_on.wait(LIMIT_S)
        try:
            connection(server, stream, source)
        finally:
            ended.release()

    monkeypatch.setattr(RpcServer, "_connection", late)
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        with contextlib.ExitStack() as held:
            for _ in range(MAX_STRANGERS + 4):
                held.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
            assert wait_until(lambda: server._gave_way_count == 4)
        go_on.set()
        for _ in range(MAX_STRANGERS + 4):
            assert ended.acquire(timeout=LIMIT_S)
        assert client_of(server, tls_folder).call("echo") == {}
    assert raised == []


def test_who_keeps_connecting_and_says_nothing_pushes_out_himself(tls_folder: Path) -> None:
    over = threading.Event()

    def flood() -> None:
        with contextlib.ExitStack() as held:
            for _ in range(2000):
                if over.is_set():
                    return
                held.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
                time.sleep(0.005)

    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        stranger = threading.Thread(target=flood)
        stranger.start()
        try:
            assert wait_until(lambda: server._gave_way_count > 0)
            host, port = server.address
            tls = TlsFiles.in_folder(tls_folder / "controller").context(ssl.Purpose.SERVER_AUTH)
            for _ in range(12):
                # From an address of its own: as from the controller's machine.
                raw = socket.create_connection((host, port), LIMIT_S, ("127.0.0.2", 0))
                with tls.wrap_socket(raw, server_hostname="gcs") as stream:
                    assert _ask(stream, b'{"jsonrpc":"2.0","id":"%d","method":"echo"}\n' % id(stream))
        finally:
            over.set()
            stranger.join(LIMIT_S)


def test_a_connection_that_gets_no_thread_is_closed_and_the_next_is_served(
    tls_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        refused: list[str] = []
        start = threading.Thread.start

        def refusing(thread: threading.Thread) -> None:
            if thread.name == "rpc-connection" and len(refused) <= MAX_CONNECTIONS:
                refused.append(thread.name)
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refusing)
        for _ in range(MAX_CONNECTIONS + 1):  # one more than may be open: none of them counts as open
            with socket.create_connection(server.address, timeout=LIMIT_S) as sock:
                assert sock.recv(1) == b""
        assert client_of(server, tls_folder).call("echo") == {}
        notes: list[str] = server.notes  # type: ignore[attr-defined]
        assert len(notes) == MAX_CONNECTIONS + 1 and all("can't start new thread" in note for note in notes)


def test_a_defect_is_an_answer(tls_folder: Path) -> None:
    def broken(params: Any) -> dict[str, Any]:
        raise ZeroDivisionError("by design")

    with serving(tls_folder, {"broken": broken}) as server, client_of(server, tls_folder) as client:
        with pytest.raises(RemoteError) as caught:
            client.call("broken")
        assert caught.value.code == "internal"
        assert "ZeroDivisionError" in server.notes[0]  # type: ignore[attr-defined]


def test_cache_forgets_the_oldest_but_bounds_bytes() -> None:
    cache = AnswerCache(max_answers=3, max_bytes=1000)
    ran: list[str] = []

    def run(name: str) -> bytes:
        ran.append(name)
        return b"x" * 300

    for name in ("a", "b", "c", "d"):
        cache.answer(name, b"q", lambda name=name: run(name))  # type: ignore[misc]
    cache.answer("d", b"q", lambda: run("d"))
    assert ran == ["a", "b", "c", "d"]
    cache.answer("a", b"q", lambda: run("a"))
    assert ran[-1] == "a"
    with pytest.raises(IdReusedError):
        cache.answer("a", b"another", lambda: run("never"))


def test_cache_does_not_keep_a_run_that_raised() -> None:
    cache = AnswerCache()

    def fail() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.answer("a", b"q", fail)
    assert cache.answer("a", b"q", lambda: b"second") == b"second"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "cell_id"),
        ({"cell_id": 7}, "cell_id"),
        ({"cell_id": ""}, "cell_id"),
        ({"cell_id": "c", "n": True}, "n"),
        ({"cell_id": "c", "n": 11}, "n"),
        ({"cell_id": "c", "n": 1, "mistyped": 1}, "mistyped"),
    ],
)
def test_params_name_the_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsError) as caught:
        given = Params("m", values)
        given.text("cell_id")
        given.whole("n", 1, least=0, most=10)
        given.done()
    assert repr(field) in str(caught.value)

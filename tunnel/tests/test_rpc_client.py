"""The controller's RPC client: typed errors that name the next command, and no native imports."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rpc_kit import client_of, issue_all, serving, tcp_service

from pqtunnel import pki
from pqtunnel.rpc import (
    AgentUnreachableError,
    MissingKeyError,
    RemoteError,
    RpcClient,
    RpcProtocolError,
    RpcTimeoutError,
    TlsFiles,
    WrongKeyError,
    fetch_all,
)
from tools import python_told
from waiting import LIMIT_S, free_port


def test_client_loads_nothing_native() -> None:
    code = (
        "import sys, pqtunnel.rpc, pqtunnel.suites;"
        "print([m for m in sys.modules if m.split('.')[0] in ('oqs', 'cryptography', 'pq_ascon', 'ctypes')])"
    )
    done = python_told(code)
    assert (done.returncode, done.stdout.strip()) == (0, "[]")


def test_result_comes_back(tls_folder: Path) -> None:
    methods = {"echo": lambda params: {"got": params}}
    with serving(tls_folder, methods) as server, client_of(server, tls_folder) as client:
        assert client.call("echo", {"a": [1, "ä"]}) == {"got": {"a": [1, "ä"]}}
        assert client.call("echo") == {"got": {}}


def test_remote_error_carries_code_and_hint(tls_folder: Path) -> None:
    from pqtunnel.errors import SuiteUnknown

    def refuse(params: Any) -> dict[str, Any]:
        raise SuiteUnknown("cs-x", "cs-y")

    with serving(tls_folder, {"prepare": refuse}) as server, client_of(server, tls_folder) as client:
        with pytest.raises(RemoteError) as caught:
            client.call("prepare")
        assert caught.value.code == "unknown_suite"
        assert "cs-y" in caught.value.hint
        # The connection survives a refusal.
        with pytest.raises(RemoteError) as caught:
            client.call("nothing")
        assert caught.value.code == "unknown_method"
        assert caught.value.rpc_code == -32601


def test_large_answers_arrive_whole(tls_folder: Path) -> None:
    lines = [f"line {n} " + "x" * 100 for n in range(30_000)]
    with (
        serving(tls_folder, {"fetch": lambda p: {"lines": lines, "next": len(lines), "end": True}}) as server,
        client_of(server, tls_folder) as client,
    ):
        assert fetch_all(client, "c", "ledger") == lines


def test_client_certificate_of_another_ca_names_make_keys(tls_folder: Path, tmp_path: Path) -> None:
    other = issue_all(tmp_path / "other")
    mixed = TlsFiles(
        tls_folder / "controller" / "ca.cert.pem",  # trusts the server…
        other / "controller" / "tls.cert.pem",  # …but shows a certificate of another run
        other / "controller" / "tls.key.pem",
    )
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        client = RpcClient(*server.address, mixed, server_name="gcs")
        with pytest.raises((WrongKeyError, AgentUnreachableError)) as caught:
            client.call("echo")
        assert "make keys" in caught.value.hint


def test_server_certificate_of_another_ca_names_make_keys(tls_folder: Path, tmp_path: Path) -> None:
    other = issue_all(tmp_path / "other")
    with serving(other, {"echo": lambda params: {}}) as server:
        with pytest.raises(WrongKeyError) as caught:
            client_of(server, tls_folder).call("echo")
        assert "make keys" in caught.value.hint
        assert "does not verify" in str(caught.value)


def test_certificate_of_another_role_is_refused(tls_folder: Path) -> None:
    serves_as_drone = serving(tls_folder, {"echo": lambda params: {}}, role="drone")
    with serves_as_drone as server, pytest.raises(WrongKeyError):
        client_of(server, tls_folder, server_name="gcs").call("echo")


def test_client_without_certificate_is_refused(tls_folder: Path) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        context = ssl.create_default_context(cafile=str(tls_folder / "controller" / "ca.cert.pem"))
        raw = socket.create_connection(server.address, timeout=LIMIT_S)
        with raw, pytest.raises((ssl.SSLError, ConnectionError)):
            stream = context.wrap_socket(raw, server_hostname="gcs")
            stream.sendall(b'{"jsonrpc":"2.0","id":"1","method":"echo"}\n')
            if not stream.recv(1):
                raise ConnectionResetError


@pytest.mark.parametrize("years", [-30, 30], ids=["of the past", "of the future"])
def test_a_wrong_clock_locks_nobody_out_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """Certificates that lie wholly in the past or in the future of this clock: the keys are right."""
    now = pki._now()
    monkeypatch.setattr(pki, "_now", lambda: now + timedelta(days=365 * years))
    keys = issue_all(tmp_path / "keys")
    said: list[str] = []
    with serving(keys, {"echo": lambda params: {}}) as server:
        files = TlsFiles.in_folder(keys / "controller")
        with RpcClient(*server.address, files, server_name="gcs", note=said.append) as client:
            assert client.call("echo") == {}
        told: list[str] = server.notes  # type: ignore[attr-defined]
    for words, name in ((said, "gcs"), (told, "controller")):
        assert len(words) == 1 and f"the certificate that {name} shows" in words[0]
        assert "trusted for its key" in words[0] and "set the clocks" in words[0]


def test_another_ca_is_refused_whatever_its_dates(
    tls_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = pki._now()
    monkeypatch.setattr(pki, "_now", lambda: now - timedelta(days=20 * 365))
    others = issue_all(tmp_path / "others")
    with serving(tls_folder, {"echo": lambda params: {}}) as server, pytest.raises(WrongKeyError):
        client_of(server, others).call("echo")


def test_tls_1_2_is_refused(tls_folder: Path) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server:
        context = TlsFiles.in_folder(tls_folder / "controller").context(ssl.Purpose.SERVER_AUTH)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(server.address, timeout=LIMIT_S) as raw,
            pytest.raises((ssl.SSLError, OSError)),
        ):
            context.wrap_socket(raw, server_hostname="gcs")


def test_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingKeyError) as caught:
        RpcClient("127.0.0.1", 1, TlsFiles.in_folder(tmp_path), server_name="gcs")
    assert "ca.cert.pem" in str(caught.value)
    assert "make keys" in caught.value.hint


def test_nobody_there(tls_folder: Path) -> None:
    address = ("127.0.0.1", free_port())
    client = RpcClient(*address, TlsFiles.in_folder(tls_folder / "controller"), server_name="gcs")
    with pytest.raises(AgentUnreachableError) as caught:
        client.call("hello")
    assert "make lab-up" in caught.value.hint


def test_silent_server_times_out(tls_folder: Path) -> None:
    over = threading.Event()
    with tcp_service(lambda sock: over.wait(LIMIT_S) and None) as address:
        tls = TlsFiles.in_folder(tls_folder / "controller")
        client = RpcClient(*address, tls, server_name="gcs", connect_timeout_s=0.3)
        with pytest.raises(RpcTimeoutError):
            client.call("hello", timeout_s=0.3)
        assert not over.is_set(), "it is silent still"
        over.set()


def test_slow_method_times_out_and_may_be_asked_again(tls_folder: Path) -> None:
    ran: list[int] = []
    go_on = threading.Event()

    def slow(params: Any) -> dict[str, Any]:
        ran.append(1)
        assert go_on.wait(LIMIT_S)
        return {"n": len(ran)}

    with serving(tls_folder, {"slow": slow}) as server, client_of(server, tls_folder) as client:
        with pytest.raises(RpcTimeoutError):
            client.call("slow", timeout_s=0.2, request_id="once")
        go_on.set()
        assert client.call("slow", timeout_s=LIMIT_S, request_id="once") == {"n": 1}
        assert ran == [1]


def test_plain_tcp_service_is_not_taken_for_an_agent(tls_folder: Path) -> None:
    with tcp_service(lambda sock: sock.sendall(b"SSH-2.0-hello\r\n")) as address:
        client = RpcClient(*address, TlsFiles.in_folder(tls_folder / "controller"), server_name="gcs")
        with pytest.raises((WrongKeyError, AgentUnreachableError, RpcProtocolError)):
            client.call("hello")


def test_stale_connection_is_replaced_once(tls_folder: Path) -> None:
    with serving(tls_folder, {"echo": lambda params: {}}) as server, client_of(server, tls_folder) as client:
        client.call("echo")
        assert client._socket is not None
        client._socket.shutdown(socket.SHUT_RDWR)  # as if the agent's host had dropped it
        assert client.call("echo") == {}

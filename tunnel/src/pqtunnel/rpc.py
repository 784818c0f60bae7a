"""JSON-RPC 2.0 client of the agents: NDJSON frames over mutual TLS 1.3 on one persistent TCP connection.

In scope: connecting, framing, request ids, time limits, typed errors with the next command.
Not in scope: anything native. The controller imports this module on a host that has no liboqs, so only the
standard library and the exception tree are used here.

Every request carries a unique string id. An agent answers a repeated id with the answer it gave first, so a
request whose connection broke may be sent again without doing the work twice; `RpcClient.call` does so once.
Sources: JSON-RPC 2.0 specification, RFC 8446 (TLS 1.3).
"""

from __future__ import annotations

import json
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pqbase.documents import Json, texts_of, whole_of
from pqtunnel.errors import TunnelError, key_owner_hint

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
DEFAULT_CONNECT_TIMEOUT_S: Final = 5.0
DEFAULT_CALL_TIMEOUT_S: Final = 15.0
_RECV_BYTES: Final = 1 << 18
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME (OpenSSL, x509_vfy.h): a board without a battery starts in 1970. What is trusted
is the key of the lab's own CA, which signs nothing else; dates would only lock its owner out."""


class RpcError(TunnelError):
    """Any failure of a call. `code` is stable, `hint` is the next command or check."""

    code = "rpc_error"
    hint = "See `make lab-status`."

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.code}] — {self.hint}"


class AgentUnreachableError(RpcError):
    """Nothing answers on the agent's address, or the connection broke twice."""

    code = "agent_unreachable"


class WrongKeyError(RpcError):
    """TLS refused one of the two certificates."""

    code = "wrong_key"


class MissingKeyError(RpcError):
    """A certificate or key file is absent or unreadable."""

    code = "missing_key"


class RpcTimeoutError(RpcError):
    """No answer within the time limit. The agent may still be working on the request."""

    code = "rpc_timeout"


class RpcProtocolError(RpcError):
    """The other side does not speak the protocol."""

    code = "rpc_protocol"


class RemoteError(RpcError):
    """The agent understood the request and refused it; `code` and `hint` are the agent's."""

    code = "remote_error"

    def __init__(self, what: str, *, code: str, hint: str, rpc_code: int, data: Json) -> None:
        super().__init__(what, hint=hint, code=code)
        self.rpc_code = rpc_code
        self.data = data


@dataclass(frozen=True)
class TlsFiles:
    """One identity of the control plane: CA certificate, own certificate, own private key (PEM paths)."""

    ca_cert: Path
    cert: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path) -> TlsFiles:
        """The layout of `pqtunnel keys`: ca.cert.pem, tls.cert.pem, tls.key.pem in one role's folder."""
        return cls(folder / "ca.cert.pem", folder / "tls.cert.pem", folder / "tls.key.pem")

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """A TLS 1.3-only context that demands the peer's certificate; raises MissingKeyError, WrongKeyError.

        `purpose` names the peer: SERVER_AUTH for a client's context, CLIENT_AUTH for a server's.
        """
        for path in (self.ca_cert, self.cert, self.key):
            try:
                path.open("rb").close()
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingKeyError(f"{path} is not there", hint="run `make keys`") from error
            except OSError as error:
                raise MissingKeyError(
                    f"{path} cannot be read: {error.strerror or error}", hint=key_owner_hint()
                ) from error
        client = purpose is ssl.Purpose.SERVER_AUTH
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if client else ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(cafile=str(self.ca_cert))
            context.load_cert_chain(str(self.cert), str(self.key))
        except ssl.SSLError as error:
            raise WrongKeyError(
                f"{self.cert} and {self.key} do not fit each other ({error.reason})",
                hint="run `make keys` (or `pqtunnel keys --force` to replace them)",
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
        context.check_hostname = client
        # One session a connection and no resumption: a ticket would only delay the first answer.
        if not client:
            context.num_tickets = 0
        return context


def out_of_date(stream: ssl.SSLSocket) -> str | None:
    """What to say where this clock and the peer's certificate do not agree; None where they do."""
    told = stream.getpeercert() or {}
    begin, end = str(told["notBefore"]), str(told["notAfter"])
    if ssl.cert_time_to_seconds(begin) <= time.time() <= ssl.cert_time_to_seconds(end):
        return None
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"the certificate that {_named(told)} shows is of {begin} to {end}, and the clock here says {today}: "
        "it is trusted for its key all the same; set the clocks, then `make keys`"
    )


def _named(told: Mapping[str, object]) -> str:
    names = told.get("subjectAltName")
    return str(names[0][1]) if isinstance(names, tuple) and names else "the peer"


class RpcClient:
    """A connection to one agent. Not thread-safe: one client a thread.

    `server_name` is the name the agent's certificate must carry (its role: `drone` or `gcs`). `note` is told
    where the clock here does not fit the agent's certificate.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: TlsFiles,
        *,
        server_name: str,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        call_timeout_s: float = DEFAULT_CALL_TIMEOUT_S,
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.host = host
        self.port = port
        self.server_name = server_name
        self.connect_timeout_s = connect_timeout_s
        self.call_timeout_s = call_timeout_s
        self._context = tls.context(ssl.Purpose.SERVER_AUTH)
        self._note = note
        self._socket: ssl.SSLSocket | None = None
        self._buffer = bytearray()

    @property
    def address(self) -> str:
        """`role at host:port`, for messages."""
        return f"{self.server_name} agent at {self.host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer.clear()

    def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Json:
        """Call `method` and return its result object.

        Raises RemoteError when the agent refuses, RpcTimeoutError after `timeout_s` (default: the client's),
        AgentUnreachableError, WrongKeyError, RpcProtocolError.
        """
        limit_s = self.call_timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        identifier = uuid.uuid4().hex if request_id is None else request_id
        request = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        for attempt in (1, 2):
            fresh = self._socket is None
            try:
                self._connect(deadline_s)
                return self._exchange(line, identifier, method, limit_s, deadline_s)
            except AgentUnreachableError:
                self.close()
                # A persistent connection that went stale is worth one new one; a new one that fails is not.
                if attempt == 2 or fresh:
                    raise
            except RemoteError:
                raise
            except RpcError:
                self.close()
                raise
        raise AssertionError("unreachable")  # pragma: no cover

    # ------------------------------------------------------------------ connection

    def _connect(self, deadline_s: float) -> None:
        if self._socket is not None:
            return
        limit_s = min(self.connect_timeout_s, max(0.05, deadline_s - time.monotonic()))
        try:
            raw = socket.create_connection((self.host, self.port), timeout=limit_s)
        except OSError as error:
            raise AgentUnreachableError(
                f"no {self.address}: {error.strerror or error}",
                hint="start the lab with `make lab-up`, see it with `make lab-status`",
            ) from error
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._context.wrap_socket(raw, server_hostname=self.server_name)
        except (ssl.SSLError, OSError) as error:
            raw.close()
            raise self._translate(error, "TLS handshake") from error
        self._buffer.clear()
        if (problem := out_of_date(self._socket)) is not None:
            self._note(problem)

    def _translate(self, error: OSError, during: str) -> RpcError:
        """An error of the transport as the error the caller can act on."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return WrongKeyError(
                f"the certificate of the {self.address} does not verify: {error.verify_message}",
                hint="the lab runs with other keys than this checkout: `make keys`, then "
                "`make lab-down` and `make lab-up`",
            )
        if isinstance(error, TimeoutError):
            return RpcTimeoutError(
                f"{self.address}: no progress in the {during} within the time limit",
                hint="see `make lab-status` and the agent's log",
            )
        closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if isinstance(error, ssl.SSLError) and not closed:
            return WrongKeyError(
                f"the {self.address} refused this side's certificate ({error.reason or error})",
                hint="the keys here and in the lab differ: `make keys`, then `make lab-down`, `make lab-up`",
            )
        return AgentUnreachableError(
            f"the {self.address} closed the connection during the {during} ({error})",
            hint="if it persists the agent died or the keys differ: `make lab-status`, then `make keys`",
        )

    # ------------------------------------------------------------------ one exchange

    def _exchange(self, line: bytes, identifier: str, method: str, limit_s: float, deadline_s: float) -> Json:
        stream = self._socket
        assert stream is not None
        try:
            stream.settimeout(max(0.05, deadline_s - time.monotonic()))
            stream.sendall(line)
            while True:
                answer = self._read_line(stream, method, limit_s, deadline_s)
                message = self._parse(answer)
                if message.get("id") == identifier:
                    break  # an answer to an earlier, timed-out request is passed over
                if message.get("id") is None:
                    break  # the agent could not read the id: its error is about this request
        except OSError as error:
            raise self._translate(error, f"call of {method}") from error
        return self._result(message)

    def _read_line(self, stream: ssl.SSLSocket, method: str, limit_s: float, deadline_s: float) -> bytes:
        scanned = 0
        while True:
            end = self._buffer.find(b"\n", scanned)
            if end >= 0:
                line = bytes(memoryview(self._buffer)[:end])
                del self._buffer[: end + 1]
                return line
            scanned = len(self._buffer)
            if scanned > MAX_ANSWER_BYTES:
                raise RpcProtocolError(
                    f"{self.address}: an answer longer than {MAX_ANSWER_BYTES} bytes",
                    hint="ask for fewer lines at a time (`limit`)",
                )
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise RpcTimeoutError(
                    f"{self.address}: no answer to {method} within {limit_s:g} s",
                    hint="see `make lab-status`; the same request id may be asked again",
                )
            stream.settimeout(left_s)
            try:
                chunk = stream.recv(_RECV_BYTES)
            except TimeoutError as error:
                raise RpcTimeoutError(
                    f"{self.address}: no answer to {method} within {limit_s:g} s",
                    hint="see `make lab-status`; the same request id may be asked again",
                ) from error
            if not chunk:
                raise AgentUnreachableError(
                    f"the {self.address} closed the connection before it answered {method}",
                    hint="if it persists the agent died or the keys differ: `make lab-status`, `make keys`",
                )
            self._buffer += chunk

    def _parse(self, line: bytes) -> Json:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RpcProtocolError(
                f"{self.address}: the answer is not JSON ({error})", hint="is another service on this port?"
            ) from error
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise RpcProtocolError(
                f"{self.address}: the answer is not JSON-RPC 2.0", hint="is another service on this port?"
            )
        return message

    def _result(self, message: Json) -> Json:
        error = message.get("error")
        if error is not None:
            if not isinstance(error, dict):
                raise RpcProtocolError(f"{self.address}: an error that is no object: {error!r}")
            given, number = error.get("data"), error.get("code")
            data: Json = given if isinstance(given, dict) else {}
            raise RemoteError(
                f"{self.server_name}: {error.get('message', 'refused')}",
                code=str(data.get("code", "remote_error")),
                hint=str(data.get("hint", "")),
                rpc_code=number if isinstance(number, int) else 0,
                data=data,
            )
        result = message.get("result")
        if not isinstance(result, dict):
            raise RpcProtocolError(f"{self.address}: a result that is no object: {result!r}")
        return result


def fetch_all(
    client: RpcClient, cell_id: str, stream: str, *, limit: int = 20_000, timeout_s: float | None = None
) -> list[str]:
    """All lines of a stream of one cell, by as many `fetch` calls as the agent's answer sizes ask for."""
    lines: list[str] = []
    since = 0
    while True:
        page = client.call(
            "fetch",
            {"cell_id": cell_id, "stream": stream, "since": since, "limit": limit},
            timeout_s=timeout_s,
        )
        lines.extend(texts_of(page, "lines"))
        since = whole_of(page, "next")
        if page["end"]:
            return lines

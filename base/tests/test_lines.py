"""Lines over a real connection: answers, refusals, late answers, limits, and every way of no answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pqbase.documents import Json
from pqbase.errors import PqError
from pqbase.lines import MAX_REQUEST_BYTES, Client, LineError, NoAnswer, Refused, encode, parse
from served import Served


class Echo:
    """`echo` answers, `late` is answered when `now` is asked, the rest is refused; two connections."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.waiting: list[socket.socket] = []
        self.gone: list[socket.socket] = []
        self.served = Served(self.answer, gone=self.gone.append, address=address, most=2)
        self.address = self.served.address

    def answer(self, request: Json, connection: socket.socket, now_ns: int) -> Json | None:
        match request.get("op"):
            case "echo":
                return {"ok": True, "told": request.get("told")}
            case "bare":
                return {}
            case "late":
                self.waiting.append(connection)
                return None
            case "now":
                for waiting in self.waiting:
                    self.served.server.send(waiting, {"ok": True, "late": True})
                return {"ok": True}
        raise PqError("no such op", "echo, late, now", "unknown_op")

    def client(self, limit_s: float = 20.0) -> Client:
        return Client(self.address, limit_s, "start it")


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.served.close()


def test_an_answer_comes_without_its_ok_and_a_refusal_in_the_servers_words(echo: Echo) -> None:
    with echo.client() as client:
        assert client.ask("echo", told=[1, "ä"]) == {"told": [1, "ä"]}
        with pytest.raises(Refused) as caught:
            client.ask("what")
        error = caught.value
        assert (error.what, error.code, error.hint) == ("no such op", "unknown_op", "echo, late, now")
        assert client.ask("echo") == {"told": None}
        with pytest.raises(Refused):
            client.ask("bare")


def test_an_answer_may_come_late_and_to_nobody(echo: Echo) -> None:
    told: list[Json] = []
    with echo.client() as one, echo.client() as other:
        asking = threading.Thread(target=lambda: told.append(one.ask("late")), daemon=True)
        asking.start()
        while not echo.waiting:
            time.sleep(0.01)
        other.ask("now")
        asking.join()
        assert told == [{"late": True}]
        one.close()
        while not echo.gone:
            time.sleep(0.01)
        assert other.ask("now") == {}


def test_requests_in_pieces_or_together_are_answered_in_order(echo: Echo) -> None:
    whole = encode({"op": "echo", "told": 1}) + b"no\n" + encode({"op": "echo", "told": 2})
    with socket.create_connection(echo.address, timeout=20) as sock, sock.makefile("rb") as lines:
        sock.sendall(whole[:7])
        time.sleep(0.05)
        sock.sendall(whole[7:])
        answers = [parse(lines.readline()) for _ in range(3)]
    assert [answer.get("told") for answer in answers] == [1, None, 2]
    assert answers[1]["code"] == "bad_request"


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_object_is_an_error_with_a_hint(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        parse(line)
    assert caught.value.code == "bad_request" and caught.value.hint


def test_a_line_without_end_and_one_connection_too_many_are_dropped(echo: Echo) -> None:
    def dropped(text: bytes) -> bool:
        with socket.create_connection(echo.address, timeout=20) as sock:
            try:
                sock.sendall(text)
                return sock.recv(1) == b""
            except ConnectionError:
                return True

    assert dropped(b"x" * (MAX_REQUEST_BYTES + 1))
    with echo.client() as one, echo.client() as other:
        one.ask("echo")
        other.ask("echo")
        assert dropped(encode({"op": "echo"}))
        assert one.ask("echo") == {"told": None}


def test_a_server_that_is_started_later_is_found() -> None:
    gone = Echo()
    gone.served.close()
    with gone.client() as client:
        with pytest.raises(NoAnswer) as caught:
            client.ask("echo")
        assert (caught.value.connected, caught.value.hint) == (False, "start it")
        again = Echo(gone.address)
        assert client.ask("echo") == {"told": None}
        again.served.close()


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "closed the connection"),
        (b"half", "cut short"),
        (b"hello?\n", "not JSON"),
        (b"[]\n", "not a JSON"),
    ],
)
def test_what_is_no_answer_says_why(says: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        with Client(listener.getsockname(), 20.0, "") as client:
            for _ in range(2):  # the second time on a connection of its own
                with pytest.raises(NoAnswer, match=why) as caught:
                    client.ask("echo")
                assert caught.value.connected and not isinstance(caught.value.__cause__, TimeoutError)


def test_silence_is_told_from_the_rest(echo: Echo) -> None:
    with echo.client(0.2) as client, pytest.raises(NoAnswer) as caught:
        client.ask("late")
    assert isinstance(caught.value.__cause__, TimeoutError) and caught.value.connected

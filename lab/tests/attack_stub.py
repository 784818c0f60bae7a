"""An attacker for tests: the real desk behind a socket, with episodes that send nothing and say they did."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

from pqattack.bins import SentBins
from pqattack.desk import Desk
from pqattack.errors import AttackError
from pqattack.lines import encode, failure
from pqattack.settings import Episode

Json = dict[str, Any]


class PretendedEpisode:
    """Ends at its deadline or when told; its bins say that it was sent as asked."""

    def __init__(self, episode: Episode) -> None:
        self.bins, self.failed = SentBins(), 0
        self._episode, self._why = episode, ""
        self._until_s = 0.0

    def start(self) -> None:
        self._until_s = time.monotonic() + self._episode.for_s
        now_ns = time.time_ns()
        for tick in range(round(self._episode.for_s * 50)):
            for _ in range(max(1, round(self._episode.rate_pps / 50))):
                self.bins.add(now_ns + tick * 20_000_000)

    def stop(self, why: str) -> None:
        if self.ended is None:
            self._why = why

    @property
    def ended(self) -> str | None:
        return self._why or ("deadline" if time.monotonic() >= self._until_s else None)


class StubAttacker:
    """Serves on loopback until closed; `requests` holds what was asked, signs of life left out."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.requests: list[Json] = []
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """As when the container is killed."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            for line in connection.makefile("rb"):
                request = json.loads(line)
                with self._lock:
                    if request["op"] != "renew":
                        self.requests.append(request)
                    answer = self._answer(request, connection)
                connection.sendall(encode(answer))
        except (OSError, ValueError):
            pass
        with self._lock:
            self.desk.gone(connection)

    def _answer(self, request: Json, connection: socket.socket) -> Json:
        desk, now_ns, owner = self.desk, time.monotonic_ns(), str(request.get("owner"))
        desk.tick(now_ns)
        try:
            match request["op"]:
                case "take":
                    desk.take(owner, connection, request["hold_s"], now_ns)
                case "renew":
                    desk.renew(owner, now_ns)
                case "start":
                    episode = Episode.parse(request["attack"])
                    desk.admit(owner, episode)
                    return {"ok": True, **desk.begin(episode, PretendedEpisode(episode)).summary()}
                case "stop":
                    desk.require(owner)
                    desk.stop("stopped")
                case "truth":
                    desk.require(owner)
                    return {"ok": True, **desk.account(request["episode"]).truth()}
                case "release":
                    return {"ok": True, "released": desk.release(owner)}
        except AttackError as error:
            return failure(error)
        return {"ok": True, "owner": desk.owner, "episodes": [done.summary() for done in desk.episodes]}

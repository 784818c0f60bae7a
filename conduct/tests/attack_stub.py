"""An attacker for tests: the real desk behind a socket, with episodes that send nothing and say they did."""

from __future__ import annotations

import socket
import time

from pqattack.bins import SentBins
from pqattack.desk import Desk
from pqattack.settings import Episode
from pqbase.documents import Json
from served import Served


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
        self.patient = True
        """Is a controller whose machine stalls for seconds none that has fallen silent?"""
        self._served = Served(self._answer, gone=self.desk.gone)
        self.address, self.close = self._served.address, self._served.close

    @property
    def ended(self) -> list[str | None]:
        """Why each episode ended; None for one that is on."""
        return [done.runner.ended for done in self.desk.episodes]

    def _answer(self, request: Json, connection: socket.socket, now_ns: int) -> Json:
        desk, owner = self.desk, str(request.get("owner"))
        if request["op"] != "renew":
            self.requests.append(request)
        desk.tick(now_ns)
        match request["op"]:
            case "take":
                desk.take(owner, connection, request["hold_s"], now_ns)
                if self.patient:
                    desk._hold_ns = 60_000_000_000
                    desk.renew(owner, now_ns)
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
        return {"ok": True, "owner": desk.owner, "episodes": [done.summary() for done in desk.episodes]}

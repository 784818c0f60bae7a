"""The agent's stream `tlog`: what the traffic service recorded, of the cell that recorded it alone."""

from __future__ import annotations

import json
import socket
from typing import Any, cast

import pytest
from rpc_kit import tcp_service

from pqtunnel.agent.drivers.base import DriverError, NoTraffic
from pqtunnel.agent.drivers.compose import ComposeTraffic
from pqtunnel.agent.flightlog import FlightLog
from pqtunnel.endpoint.work import CellWork

PIECES = ["AAAA", "BBBB", "CCCC"]


class Service:
    """Answers `recording` two pieces at a time."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.lost = False

    def __call__(self, sock: socket.socket) -> None:
        request = json.loads(sock.makefile().readline())
        self.asked.append(request)
        answer: dict[str, Any] = {"ok": False, "code": "no_recording", "message": "nothing", "hint": "x"}
        if not self.lost:
            since = request["since"]
            chunks = PIECES[since : since + 2]
            reached = since + len(chunks)
            answer = {"ok": True, "chunks": chunks, "next": reached, "end": reached == 3, "total": 3}
        sock.sendall(json.dumps(answer).encode() + b"\n")


def cell() -> CellWork:
    """Something that is itself and nothing else."""
    return cast(CellWork, object())


def test_pieces_of_the_cell_that_recorded() -> None:
    service = Service()
    with tcp_service(service) as address:
        log = FlightLog(ComposeTraffic(address))
        here, later = cell(), cell()
        assert log.page(here, 0) == ([], 0)
        assert service.asked == [], "a cell that recorded nothing asks nobody"
        log.begins(here)
        assert log.page(here, 0) == (PIECES[:2], 3)
        assert log.page(here, 2) == (PIECES[2:], 3)
        assert log.page(later, 0) == ([], 0), "the recording of one cell is not the next one's"
        assert service.asked == [{"op": "recording", "since": 0}, {"op": "recording", "since": 2}]


def test_a_recording_that_was_lost_is_an_error_and_not_an_empty_log() -> None:
    service = Service()
    service.lost = True
    with tcp_service(service) as address:
        log, here = FlightLog(ComposeTraffic(address)), cell()
        log.begins(here)
        with pytest.raises(DriverError) as caught:
            log.page(here, 0)
    assert caught.value.code == "no_recording"
    log = FlightLog(NoTraffic())
    log.begins(here)
    with pytest.raises(DriverError):
        log.page(here, 0)

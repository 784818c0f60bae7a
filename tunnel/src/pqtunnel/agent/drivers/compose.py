"""Driver `compose`: the traffic service is resident in its own container and takes one JSON line a
command."""

from __future__ import annotations

from typing import Final

from pqbase.documents import Json
from pqbase.lines import Client, NoAnswer, Refused
from pqtunnel.agent.drivers.base import DriverError

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 8.0


class ComposeTraffic:
    """Speaks to the control port of `pqsitl vehicle` or `pqsitl ground`; one connection a command."""

    name = "compose"

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def facts(self) -> dict[str, object]:
        """The service's own `hello`; {"available": false, "reason": …} when it does not answer."""
        try:
            return self._ask("hello")
        except DriverError as error:
            return {"available": False, "reason": str(error)}

    def start(self, spec: dict[str, object]) -> dict[str, object]:
        """Start the source of `spec`.

        A source that runs already belongs to nobody: an agent runs one cell at a time and stops what it
        started, so it was left by an agent that died. It is stopped, and the answer says so under
        `orphan_stopped`.
        """
        try:
            return self._ask("start", spec=spec)
        except DriverError as error:
            if error.code != "busy":
                raise
        self._ask("stop")
        return {**self._ask("start", spec=spec), "orphan_stopped": True}

    def stop(self) -> dict[str, object]:
        """Stop the source; an idle service answers with empty counts."""
        return self._ask("stop")

    def recording(self, since: int) -> Json:
        """The service's own answer, piece by piece."""
        return self._ask("recording", since=since)

    def _ask(self, op: str, **details: object) -> Json:
        where = f"traffic service at {self._address[0]}:{self._address[1]}"
        hint = "is its container up? `make lab-status`"
        try:
            with Client(self._address, ANSWER_TIMEOUT_S, hint, connect_s=CONNECT_TIMEOUT_S) as client:
                return client.ask(op, **details)
        except NoAnswer as error:
            if isinstance(error.__cause__, TimeoutError):
                what = f"{where}: no answer to {op} in time"
                raise DriverError(what, code="traffic_timeout") from error
            if isinstance(error.__cause__, OSError):
                raise DriverError(f"{where}: {error.why}", error.hint, "traffic_unreachable") from error
            raise DriverError(f"{where}: the answer to {op} is {error.why}") from error
        except Refused as error:
            raise DriverError(f"{where}: {error.what}", error.hint, error.code) from error

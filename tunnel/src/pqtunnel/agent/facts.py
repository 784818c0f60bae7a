"""What `hello` says: the host, the providers, what every suite can do here, the self-test's outcome.

Gathered once, in the background, so that an agent answers within milliseconds and starts within a second.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from pqbase.documents import part_of
from pqtunnel import PROTOCOL_VERSION, __version__
from pqtunnel.agent.machine import played_by
from pqtunnel.agent.telemetry import Telemetry
from pqtunnel.errors import TunnelError
from pqtunnel.scheduling import clock_costs

GATHER_LIMIT_S: Final = 150.0


class FactsError(TunnelError):
    """The host could not be described."""

    code = "facts"
    hint = "see the agent's log"


class HostFacts:
    """Facts of this host, gathered by a thread; `get` waits for it."""

    def __init__(self, telemetry: Telemetry, note: Callable[[str], None]) -> None:
        self._telemetry = telemetry
        self._note = note
        self._ready = threading.Event()
        self._facts: dict[str, object] | None = None

    def open(self) -> None:
        """Start gathering."""
        threading.Thread(target=self._gather, name="host-facts", daemon=True).start()

    def _gather(self) -> None:
        try:
            # Native libraries load here, after the agent is already up.
            from pqtunnel.kat import selftest
            from pqtunnel.primitives import provider_facts
            from pqtunnel.probe import probe

            told = self._telemetry.facts()
            report = selftest()
            self._facts = {
                "agent_version": __version__,
                "protocol_version": PROTOCOL_VERSION,
                "host": {**(part_of(told, "host", {}) or _bare_host(str(told["reason"]))), **played_by()},
                "sensors": told["sensors"],
                "providers": provider_facts(),
                "suites": probe(selftest_report=report),
                "selftest": report,
                "clock_costs": clock_costs(),
            }
        except Exception:  # noqa: BLE001  whatever it is, hello must say that there are no facts, not hang
            self._note(f"host facts failed\n{traceback.format_exc()}")
        finally:
            self._ready.set()

    def get(self) -> dict[str, object]:
        """All facts; raises FactsError when they could not be gathered within GATHER_LIMIT_S."""
        if not self._ready.wait(GATHER_LIMIT_S):
            raise FactsError(f"the self-test takes longer than {GATHER_LIMIT_S:g} s on this host")
        if self._facts is None:
            raise FactsError("the host facts could not be gathered")
        return self._facts


def _bare_host(reason: str) -> dict[str, object]:
    """What the standard library knows, for a host of which pqtelemetry told nothing; the rest is null."""
    return {
        "os": "windows" if sys.platform == "win32" else sys.platform,
        "machine": platform.machine(),
        "cpu_model": None,
        "cpu_count": os.cpu_count(),
        "cpu_features": None,
        "kernel": platform.release(),
        "hostname": platform.node(),
        "board_revision": None,
        "boot_id": None,
        "in_container": None,
        "reason": f"{reason}: fields it reads are null",
    }

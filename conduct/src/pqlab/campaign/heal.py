"""Bring both agents back to idle without a campaign: what a controller that died may have left behind.

The link's impairments and the faults of a timeline have watchdogs of their own and need nothing from here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pqevidence.errors import LabError
from pqlab.campaign.agents import KEY_CODES, Connect
from pqlab.campaign.clock import Clock
from pqlab.inventory import AgentAddress, Inventory
from pqtunnel.rpc import RpcError

_PAUSE_S = 1.0
_STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Healed:
    """One agent afterwards. ok: it is idle now; did: what was found and done; hint: the next command."""

    role: str
    ok: bool
    did: str
    hint: str | None = None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def heal(inventory: Inventory, connect: Connect, clock: Clock, wait_s: float) -> list[Healed]:
    """Both agents, one after the other. An agent that does not answer is tried for `wait_s` seconds in all:
    its host may be starting again."""
    deadline_s = clock.monotonic_s() + wait_s
    return [_heal_one(address, connect, clock, deadline_s) for address in inventory.agents.values()]


def _heal_one(address: AgentAddress, connect: Connect, clock: Clock, deadline_s: float) -> Healed:
    while True:
        try:
            return _make_idle(address, connect)
        except LabError as error:
            code, what, hint = error.code.replace("-", "_"), error.what, error.hint
        except RpcError as error:
            code, what, hint = error.code, error.what, error.hint
        if code in KEY_CODES or clock.monotonic_s() >= deadline_s:
            return Healed(address.role, False, what, hint)
        clock.sleep(_PAUSE_S)


def _make_idle(address: AgentAddress, connect: Connect) -> Healed:
    client = connect(address)
    try:
        held = client.call("counters")
        if held["state"] == "idle":
            return Healed(address.role, True, "was idle")
        client.call("stop", {"cell_id": held["cell_id"]}, timeout_s=_STOP_TIMEOUT_S)
        return Healed(address.role, True, f"was {held['state']}; cell {held['cell_id']} stopped")
    finally:
        client.close()

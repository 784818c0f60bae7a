"""Event `power_cycle`: one end without power, in the middle of a session, by the driver of its place.

Unlike `peer_kill` the end is not given its orders again: a board boots for longer than a session lasts. The
cell counts for nothing, and the campaign waits for the end before the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import Json
from pqlab.campaign.place import Place


def power_cycle(place: Place, event: Mapping[str, object]) -> Json:
    """Returns what the journal says of it. Raises LabError when the power was not cycled."""
    place.power_cycle(str(event["role"]))
    return {"place": str(place.facts["name"])}

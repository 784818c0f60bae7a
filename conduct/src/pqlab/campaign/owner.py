"""One lab, one owner: a campaign runs on the container lab that its own checkout brought up, on no other."""

from __future__ import annotations

import re
import shutil
import subprocess

from pqevidence.errors import LabError
from pqevidence.paths import project_root
from pqlab.campaign.command import ended
from pqlab.inventory import Inventory

_LIMIT_S = 60.0
#: how compose/lab.sh tells what happened, why, and the next command
_TOLD = re.compile(r"error: (.*)\n  why:  (.*)\n  next: (.*)")


def require_own_lab(inventory: Inventory) -> None:
    """Raises LabError (exit 4) where another checkout brought the lab up; the rule is compose/owner.sh.

    Says nothing where the hosts are no containers, or no engine is there to ask: the agents answer or not.
    """
    script = project_root() / "compose" / "lab.sh"
    if inventory.compose_project is None or shutil.which("docker") is None or not script.is_file():
        return
    try:
        done = ended([str(script), "mine"], _LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return
    if (told := _TOLD.search(done.stderr)) is not None:
        what, why, following = told.groups()
        raise LabError("not-our-lab", what, why, following)

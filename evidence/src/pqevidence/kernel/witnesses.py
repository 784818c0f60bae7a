"""Which runs wrote every witness that checks ask for."""

from __future__ import annotations

import pqevidence
from pqevidence.record.raw import RawRun

#: the first version that wrote every witness these checks ask for, and those after it
WITNESSED = ("0.2.0", pqevidence.__version__)


def has_witnesses(raw: RawRun) -> bool:
    """Is this run of a version that wrote all witnesses? 0.1.0 wrote some otherwise, or not at all."""
    return raw.run.get("pqlab_version") in WITNESSED

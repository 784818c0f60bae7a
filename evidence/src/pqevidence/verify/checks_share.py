"""A share of a campaign, worked out again from scenario and plan: its own blocks, and the campaign that it
says it is of."""

from __future__ import annotations

import hashlib
import json

from pqbase.documents import whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import Json
from pqevidence.verify.checks_drawn import whole_order

_TOGETHER = ("campaign", "share", "pair")
#: versions of pqlab that knew no shares
_BEFORE = ("0.1.0", "0.2.0")


def owned(plan: Json, count: int) -> range | None:
    """The blocks of `count` (0-based) that the plan's share holds; None for a plan without one. ValueError
    for a share that there cannot be."""
    told = plan.get("share")
    if told is None:
        return None
    number, of = int(told["number"]), int(told["of"])
    if not 1 <= number <= of <= count:
        raise ValueError(f"there is no share {number} of {of} of {count} blocks")
    return range((number - 1) * count // of, number * count // of)


def share(bundle: BundleView, tally: Tally) -> None:
    """The plan names a campaign, a share and a pair, or none of them; the campaign follows from scenario and
    order, and every planned block is one of the share's, whole. Versions that knew no shares have none."""
    named = [name for name in _TOGETHER if name in bundle.plan]
    if not named:
        tally.note = "a campaign of its own"
        return
    if missing := [name for name in _TOGETHER if name not in named]:
        tally.fail(f"plan.json names {', '.join(named)} and no {', '.join(missing)}")
        return
    made_by = bundle.raw.run.get("pqlab_version")
    tally.require(made_by not in _BEFORE, f"run.json says pqlab {made_by}, which knew no shares")
    tally.require(
        not bundle.raw.scenario.get("only"), "`only` takes cells out, and a share holds all of its blocks"
    )
    blocks = owned(bundle.plan, whole_of(bundle.raw.scenario, "repetitions"))
    assert blocks is not None  # the plan names a share
    number, of = bundle.plan["share"]["number"], bundle.plan["share"]["of"]
    for row in bundle.plan["cells"]:
        tally.see()
        block = int(row["block"])
        tally.require(
            block in blocks, f"{row['cell_id']} is of block {block}, which is none of share {number}/{of}"
        )
    content = {
        "scenario_sha256": bundle.plan["scenario_sha256"],
        "order": [list(place) for place in whole_order(bundle.raw.scenario)],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    due, campaign = hashlib.sha256(text.encode()).hexdigest(), str(bundle.plan["campaign"])
    tally.require(campaign == due, f"campaign {campaign[:12]}…, scenario and order give {due[:12]}…")
    tally.note = f"share {number}/{of}, pair {bundle.plan['pair']}"

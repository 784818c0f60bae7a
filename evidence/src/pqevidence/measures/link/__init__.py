"""The link that the router made: what it was set to, what probes found, what it did to the packets."""

from __future__ import annotations

from pqevidence.kernel.check import each
from pqevidence.measures.link import checks, record, section
from pqevidence.measures.measure import Judged, Measure, Part

REPLAYED = "the fate of every packet as trace and seed give it"
MEASURE = Measure(
    name="link",
    files=(r"link\.json", r"link\.ledger\.csv", r"canary/link\.json"),
    fill=record.fill,
    problems={"link": record.problems},
    parts=(Part("What changes between conditions?", section.links, after="conditions"),),
    checks=(
        Judged(
            each("link_achieved", checks.achieved, "pass", "a link that did what the condition says"),
            after="selftest",
        ),
        Judged(
            each("link_losses", checks.losses, "pass", "the router's losses in the ledgers"),
            after="link_achieved",
        ),
        Judged(
            each(
                "link_replayed", checks.replayed, "pass", "the fate of every packet as trace and seed give it"
            ),
            after="link_losses",
        ),
    ),
)

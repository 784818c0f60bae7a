"""Runs in virtual time."""

from __future__ import annotations

from pathlib import Path

from fake_agent import QuietReporter

from pqevidence.paths import project_root
from pqevidence.scenario import load_scenario
from pqlab import sim
from pqlab.inventory import load_inventory

SIM = project_root() / "ansible" / "inventories" / "sim.ini"


def simulated(
    folder: Path, text: str, token: str = "abc123", into: Path | None = None, results: Path | None = None
) -> Path:
    """The sealed bundle of a scenario of that text."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scenario.yml"
    file.write_text(text, encoding="utf-8")
    result = sim.carry_out(
        load_scenario(str(file)),
        load_inventory(str(SIM)),
        results=results or folder / "results",
        reporter=QuietReporter(),
        token=lambda: token,
        command=["pqlab", "run", folder.name],
        into=into,
    )
    assert result.exit_code == 0
    return result.bundle

"""The documents of a new run: builds, hosts, the plan; and of one that adds to a sealed bundle."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pqbase.documents import Json, whole_of
from pqbase.text import utc_basic, utc_text
from pqevidence.bundle.attribution import CONFIG, read_config
from pqevidence.bundle.attribution import FILE as ATTRIBUTION
from pqevidence.errors import LabError, UsageError
from pqevidence.linkload import beyond_links
from pqevidence.paths import project_root, shown
from pqevidence.plan import Cell, make_cells, plan_document
from pqevidence.record.link_ledger import trace_path
from pqevidence.scenario.model import Scenario
from pqevidence.share import Share
from pqlab import __version__
from pqlab.campaign import hosts, steady
from pqlab.campaign.attest import FOLDER as ATTESTATION
from pqlab.campaign.attest import SCHEMA as ATTESTATION_SCHEMA
from pqlab.campaign.attest import attests
from pqlab.campaign.budget import estimate, load_costs
from pqlab.campaign.extension import Extension
from pqlab.campaign.store import Store, write_atomic
from pqlab.campaign.surroundings import Surroundings

#: free space a run wants to keep beyond what its cells need
_DISK_RESERVE_BYTES = 8 << 20


def new_run(
    around: Surroundings, scenario: Scenario, hello: dict[str, Json], detectors: dict[str, Json]
) -> tuple[Store, list[Cell]]:
    """The work folder with everything but cells. On LabError nothing there can be resumed."""
    attribution = read_config(project_root() / CONFIG)
    images = hosts.image_digests(around.inventory.compose_project)
    providers = hosts.providers_document(hello, images, detectors)
    cells = planned_cells(scenario, providers, around.share)
    extension = Extension.of(around.into, scenario, providers) if around.into is not None else None
    if extension is not None:
        cells = extension.renumbered(cells)
    fresh = [cell for cell in cells if extension is None or cell.cell_id not in extension.cell_ids]
    costs = load_costs(latest_bundle(around.results) if around.earlier else None)
    budget = estimate(scenario, fresh, costs)
    check_disk(around.results, whole_of(budget, "disk_bytes") + (extension.size_bytes if extension else 0))
    now_ns = around.clock.realtime_ns()
    store = Store(around.results, f"{utc_basic(now_ns)}-{around.token()}")
    store.lock()
    write_atomic(store.data / "scenario.effective.yml", scenario.effective_yaml(), durable=True)
    for sha256, file in scenario.traces.items():
        _keep_trace(store, sha256, file)
    store.write("providers.json", providers)
    if attribution is not None:
        store.write(ATTRIBUTION, attribution)
    for role, facts in hello.items():
        store.write(f"hosts/{role}.json", hosts.host_document(facts, around.place.facts))
    controller = steady.began(around.controller(), around.steadiness())
    store.write("hosts/controller.json", controller)
    if extension is not None:
        around.reporter.note(f"taking over {len(extension.cell_ids)} cells of {extension.root.name}")
        extension.copy_into(store)
    for line in beyond_links(scenario, fresh):
        around.reporter.note(line)
    store.write(
        "run.json",
        {
            "run_id": store.run_id,
            "started_ns": now_ns,
            "ended_ns": None,
            "controller": {
                "controller_on_dut": hosts.shares_machine(controller, hello),
                "host": controller["host"],
            },
            "pqlab_version": __version__,
            "scenario": scenario.name,
            "command": around.command,
            "loadavg_start": around.load(),
            "loadavg_end": None,
            "sessions": [],
            "lineage": extension.lineage() if extension is not None else [],
            "exit_verdict": None,
            "influx": None,
        },
    )
    # the plan comes last: a work folder with a plan is one that can be resumed
    plan = plan_document(
        scenario, cells, budget, run_id=store.run_id, created_utc=utc_text(now_ns), share=around.share
    )
    if attests(hello):
        plan[ATTESTATION] = ATTESTATION_SCHEMA
    store.write("plan.json", plan)
    return store, cells


def _keep_trace(store: Store, sha256: str, file: Path) -> None:
    """The trace as the scenario was checked with it. Raises LabError for one that changed meanwhile."""
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise LabError(
            "trace-changed",
            f"{shown(file)} was changed while the run began",
            "its digest is not the one that the scenario was checked with",
            "start the run again",
        )
    write_atomic(trace_path(store.data, sha256), content, durable=True)


def planned_cells(scenario: Scenario, providers: Json | None, share: Share | None = None) -> list[Cell]:
    """The scenario's cells, or those of a share. Raises LabError when `only` leaves none, UsageError as
    `make_cells`."""
    cells = make_cells(scenario, providers, share)
    if not cells and share is not None:
        raise UsageError(
            "empty-share",
            f"share {share.number}/{share.of} of scenario {scenario.name} holds no cell",
            "no condition applies to its repetitions",
            "ask for fewer shares",
        )
    if not cells:
        raise LabError(
            "no-cells",
            f"no cell of scenario {scenario.name} has an id that begins with {', '.join(scenario.only)}",
            "ids hold scenario and builds; another build gives other ids",
            f"./pqlab plan {scenario.name} lists them",
        )
    return cells


def latest_bundle(results: Path) -> Path | None:
    """The newest sealed bundle, or None."""
    latest = results / "latest"
    return latest.resolve() if latest.is_dir() else None


def check_disk(results: Path, need_bytes: int) -> None:
    """Raises LabError when the disk of `results` has not room for that much and a reserve."""
    existing = next(folder for folder in (results, *results.parents) if folder.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < need_bytes + _DISK_RESERVE_BYTES:
        raise LabError(
            "disk-full",
            f"not enough space in {shown(existing)}",
            f"{free_bytes / 1e6:.1f} MB are free, the run needs about "
            f"{(need_bytes + _DISK_RESERVE_BYTES) / 1e6:.1f} MB",
            "free some space, shorten the run (--session-s, --suites), or give another folder with --out",
        )

"""Who takes part: what both agents say of themselves, the controller's own machine, images by digest.

Raises before the first cell what would spoil all of them: unequal builds, a failed self-test, another ring.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pqbase.documents import Json, part_of, rows_of
from pqevidence.builds import comparable, minor_version, same_machine
from pqevidence.errors import LabError
from pqevidence.record.faults import CYCLE
from pqevidence.record.raw import PLACE, played_by
from pqevidence.scenario.model import Scenario
from pqlab.campaign.place import Place, PlaceFacts
from pqlab.campaign.store import Store

_DOCKER_TIMEOUT_S = 10.0


def check_pair(hello: dict[str, Json], scenario: Scenario) -> None:
    """Both ends fit each other and the scenario. Raises LabError (exit 4) with the next command."""
    rebuild = "make images, then make lab-down and make lab-up"
    for role, facts in hello.items():
        if facts["role"] != role:
            raise LabError(
                "wrong-role",
                f"the agent at the {role}'s address says it is the {facts['role']}",
                "the inventory names the wrong port",
                "compare ansible/inventories/lab.ini with make lab-status",
            )
        if facts["ring"] != scenario.ring:
            raise LabError(
                "wrong-ring",
                f"the {role} runs in ring `{facts['ring']}`, the scenario claims `{scenario.ring}`",
                "a number's ring is that of its weakest host",
                f"set `ring: {facts['ring']}` in the scenario, or use the inventory of ring {scenario.ring}",
            )
        played = played_by(part_of(facts, "host"))
        if facts["ring"] == "hardware" and played:
            raise LabError(
                "wrong-ring",
                f"the {role} claims ring `hardware` and is played by another machine ({played})",
                "wine is not Windows, and an emulated processor is no board",
                "start that end with PQ_RING=lab, and set `ring: lab` in the scenario",
            )
        if part_of(scenario.data, "telemetry", {}).get("power") == "none" and (
            sensor := _power_sensor(facts)
        ):
            raise LabError(
                "power-not-wanted",
                f"the {role} samples power ({sensor}), the scenario wants no sample",
                "`telemetry.power: none` promises a run without watts",
                "start that end with PQ_POWER=none, or set `telemetry.power: host` in the scenario",
            )
        if not (selftest := part_of(facts, "selftest"))["ok"]:
            bad = ", ".join(str(item["name"]) for item in rows_of(selftest, "items") if not item["ok"])
            raise LabError(
                "selftest", f"the {role}'s self-test failed: {bad}", "a primitive answers wrongly", rebuild
            )
    drone, gcs = hello["drone"], hello["gcs"]
    if drone["protocol_version"] != gcs["protocol_version"]:
        raise LabError(
            "protocol-mismatch",
            f"drone speaks protocol {drone['protocol_version']}, gcs {gcs['protocol_version']}",
            "the two ends were built from different trees",
            rebuild,
        )
    minors = {role: minor_version(part_of(facts, "providers").get("python")) for role, facts in hello.items()}
    if len(set(minors.values())) > 1:
        raise LabError(
            "python-mismatch",
            f"the drone runs Python {minors['drone']}, the gcs {minors['gcs']}",
            "their times could not be compared; patch levels may differ, minor versions may not",
            f"install Python {minors['drone']} at the gcs, then: ansible-playbook provision.yml",
        )
    unequal = different_ends(hello)
    if unequal:
        raise LabError(
            "provider-mismatch",
            "the two ends use different builds: " + ", ".join(unequal),
            "their times and sizes could not be compared",
            rebuild,
        )


def check_power(place: Place, scenario: Scenario) -> None:
    """Every power cycle of the scenario has somebody to carry it out. Raises LabError (exit 4)."""
    for condition in scenario.conditions:
        for event in rows_of(condition, "events"):
            if event["kind"] == CYCLE and event["role"] not in place.powered:
                name = place.facts.get("name")
                raise LabError(
                    "no-power",
                    f"condition `{condition['name']}` cycles the power of the {event['role']}",
                    f"place {name} has no power driver for it"
                    if name
                    else "the campaign holds no place of a rack",
                    "--power FILE names a driver, or export a power port (docs/PLACES.md)"
                    if name
                    else "./pqlab run … --place NAME (docs/PLACES.md)",
                )


def different_builds(one: Json, other: Json, *, binaries: bool, named: tuple[str, str]) -> list[str]:
    """Names of the providers that differ, each side `named` in the text (pqevidence.builds has the rule)."""
    return _differing(comparable(one, binaries=binaries), comparable(other, binaries=binaries), named)


def different_ends(hello: dict[str, Json]) -> list[str]:
    """Names of the providers that differ between the two ends of a pair."""
    binaries = same_machine(hello)
    one, other = (
        comparable(part_of(hello[role], "providers"), binaries=binaries, patch_levels=False)
        for role in ("drone", "gcs")
    )
    return _differing(one, other, ("at the drone", "at the gcs"))


def _differing(one: Json, other: Json, named: tuple[str, str]) -> list[str]:
    return [
        f"{name} ({_short(one.get(name))} {named[0]}, {_short(other.get(name))} {named[1]})"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]


def _short(provider: object) -> str:
    if not isinstance(provider, dict):
        return str(provider)
    digest = str(provider.get("sha256") or provider.get("tree_sha256") or "")[:12]
    return " ".join(part for part in (str(provider.get("version", "")), digest) if part)


def _power_sensor(facts: Json) -> str | None:
    """The power sensor that this host was told to sample, by name."""
    for row in rows_of(facts, "sensors", []):
        if str(row.get("name")).split(":")[0] == "power" and (row.get("sensor") or row.get("available")):
            return str(row.get("sensor") or row["name"])
    return None


def fast_power(hello: dict[str, Json]) -> frozenset[str]:
    """The ends whose power sensor passed its preflight and keeps a raw file of its samples."""
    return frozenset(
        role
        for role, facts in hello.items()
        if any(row.get("raw") and row.get("available") for row in rows_of(facts, "sensors", []))
    )


def unsupported_reason(hello: dict[str, Json], suite_id: str) -> str | None:
    """Why a suite cannot run on this pair, or None when both ends have it."""
    for role, facts in hello.items():
        suites = part_of(facts, "suites")
        if suite_id not in suites:
            return f"{role}: the suite is not in this build's registry"
        entry = part_of(suites, suite_id)
        if entry["status"] != "available":
            return f"{role}: {entry['reason']}"
    return None


def host_document(facts: Json, place: PlaceFacts) -> Json:
    """hosts/<role>.json: all an agent said except its providers, which have a file of their own, and what was
    true at that moment only; and the place of a shared rack that the end stands at, where one is held."""
    told = {key: value for key, value in facts.items() if key not in ("providers", "temperature_c")}
    return {**told, **({PLACE: place} if place else {})}


def providers_document(hello: dict[str, Json], images: Mapping[str, str], detectors: dict[str, Json]) -> Json:
    """providers.json: the builds at both ends, the images they run from, the traffic services' facts, and
    image and model of every detector of the campaign."""
    return {
        **{role: facts["providers"] for role, facts in hello.items()},
        "images": images,
        "traffic": {role: facts.get("traffic") for role, facts in hello.items()},
        **({"detectors": detectors} if detectors else {}),
    }


def image_digests(compose_project: str | None) -> dict[str, str]:
    """Image name → content id of the lab's running containers; empty where there is no engine to ask."""
    if compose_project is None or shutil.which("docker") is None:
        return {}
    listed = _docker("ps", "-q", "--filter", f"label=com.docker.compose.project={compose_project}")
    if not listed:
        return {}
    told = _docker("inspect", "--format", "{{.Config.Image}} {{.Image}}", *listed)
    return dict(sorted(line.split(" ", 1) for line in told))


def note_late_images(store: Store, compose_project: str | None) -> list[str]:
    """Add the images of services that started after the first cell (link, detectors) to providers.json.
    Returns a warning for each image that is not the one the run began with; the first digest stays."""
    providers = store.read("providers.json")
    begun = part_of(providers, "images")
    now = image_digests(compose_project)
    changed = sorted(name for name in begun.keys() & now.keys() if begun[name] != now[name])
    if now.keys() - begun.keys():
        store.write("providers.json", {**providers, "images": dict(sorted({**now, **begun}.items()))})
    return [f"image {name} was replaced while the run went on" for name in changed]


def _docker(*argv: str) -> list[str]:
    done = subprocess.run(
        ["docker", *argv], capture_output=True, text=True, timeout=_DOCKER_TIMEOUT_S, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def controller_document() -> Json:
    """hosts/controller.json: the machine this process runs on."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "host": {
            "machine": platform.machine(),
            "cpu_model": _cpu_model(),
            "cpu_count": os.cpu_count(),
            "kernel": platform.release(),
            "hostname": platform.node(),
            "boot_id": boot.read_text(encoding="ascii").strip() if boot.is_file() else None,
            "in_container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
        },
        "python": platform.python_version(),
    }


def shares_machine(controller: Json, hello: dict[str, Json]) -> bool:
    """Does the controller run on a machine that is being measured? Containers share their host's boot id."""
    boot_id = part_of(controller, "host")["boot_id"]
    hosts = (part_of(facts, "host") for facts in hello.values())
    return boot_id is not None and any(host.get("boot_id") == boot_id for host in hosts)


def _cpu_model() -> str | None:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or None

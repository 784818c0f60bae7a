"""What `INFLUXDB_IMAGE=influxdb:2.7` becomes by the engine's own reading of the compose files: what the
published image documents of its folders, users and first set-up (docs/LIVE.md), without pulling it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab_world import World

pytestmark = pytest.mark.e2e

PUBLISHED = "influxdb:2.7"
BUILT_HERE = "pqlab/influxdb2:dev"
#: the user of lab_world's caller
CALLER = "1000"


def composed(folder: Path, image: str, **given: str) -> dict[str, Any]:
    """The services that lab.sh would start, as `docker compose config` says them."""
    world = World(folder)
    world.lab_of(world.here)
    engine = folder / "bin" / "docker"
    noted = 'case "$*" in *\' up \'*) env -0 >"$WORLD/environment" ;; esac\ncase "$*" in\n'
    engine.write_text(engine.read_text().replace('case "$*" in\n', noted, 1))
    inherited = {k: v for k, v in world.environment.items() if not k.startswith(("INFLUXDB_", "LAB"))}
    up = subprocess.run(
        [world.here / "compose/lab.sh", "up"],
        env={**inherited, "INFLUXDB_IMAGE": image, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert up.returncode == 0, up.stderr
    (started,) = (line for line in world.changed() if " up " in line)
    rows = (folder / "environment").read_text().rstrip("\0").split("\0")
    environment = {**dict(row.split("=", 1) for row in rows), "PATH": os.environ["PATH"]}
    read = subprocess.run(
        ["docker", *started.split(" up ")[0].split(), "config", "--format", "json"],
        env=environment,
        cwd=world.here,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    return services


@pytest.fixture(params=[PUBLISHED, BUILT_HERE])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return composed(tmp_path, request.param)


def test_it_may_write_its_two_folders_and_no_other_database_s(services: dict[str, Any]) -> None:
    database = services["influxdb"]
    assert database["user"] == f"{CALLER}:{CALLER}" and database["read_only"] is True
    mounts = dict(mount.split(":", 1) for mount in database["tmpfs"])
    assert set(mounts) == {"/tmp", "/run", "/var/lib/influxdb2", "/etc/influxdb2"}
    for folder in ("/var/lib/influxdb2", "/etc/influxdb2"):
        assert {f"uid={CALLER}", f"gid={CALLER}", "mode=0700"} <= set(mounts[folder].split(","))
    assert database["environment"]["HOME"] == "/tmp"


def test_its_own_entrypoint_sets_it_up_with_what_telegraf_writes_to(services: dict[str, Any]) -> None:
    database, telegraf = services["influxdb"], services["telegraf"]
    assert not database.get("entrypoint") and not database.get("command")
    told = {
        name: value
        for name, value in database["environment"].items()
        if name.startswith("DOCKER_INFLUXDB_INIT_")
    }
    token = told["DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"]
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert told == {
        "DOCKER_INFLUXDB_INIT_MODE": "setup",
        "DOCKER_INFLUXDB_INIT_USERNAME": "pqlab",
        "DOCKER_INFLUXDB_INIT_PASSWORD": token,
        "DOCKER_INFLUXDB_INIT_ADMIN_TOKEN": token,
        "DOCKER_INFLUXDB_INIT_ORG": "pqlab",
        "DOCKER_INFLUXDB_INIT_BUCKET": "pqlab",
    }
    assert telegraf["environment"] == {"INFLUXDB_USER": "pqlab", "INFLUXDB_TOKEN": token}


def test_healthy_is_who_takes_the_token_and_has_the_bucket(services: dict[str, Any]) -> None:
    kind, command = services["influxdb"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL" and command.startswith("influx bucket list ")
    assert '--token "$$DOCKER_INFLUXDB_INIT_ADMIN_TOKEN" --org pqlab --name pqlab' in command
    (port,) = services["influxdb"]["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == ("127.0.0.1", "8086", 8086)


def test_a_token_of_the_user_s_goes_to_all_who_need_it(tmp_path: Path) -> None:
    services = composed(tmp_path, PUBLISHED, INFLUXDB_TOKEN="mine, with $5", INFLUXDB_USER="ann")
    # `config` doubles a dollar, as a compose file has to
    assert services["influxdb"]["environment"]["DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"] == "mine, with $$5"
    assert services["telegraf"]["environment"] == {"INFLUXDB_USER": "ann", "INFLUXDB_TOKEN": "mine, with $$5"}


def test_the_lab_s_own_database_needs_none_of_it(tmp_path: Path) -> None:
    services = composed(tmp_path, "")
    assert services["influxdb"]["image"] == "pqlab/influxdb:dev"
    assert not services["influxdb"].get("environment")
    assert set(services["telegraf"]["environment"].values()) == {""}

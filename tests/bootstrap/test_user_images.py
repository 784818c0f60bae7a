"""What a user brings: an ArduPilot binary with its defaults, an InfluxDB of version 2."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab_world import ROOT, World
from pqlab.campaign.finish import secret_files
from tools import ended


class Loader(yaml.SafeLoader):
    """`!override` says how files are merged, not what is in them."""


Loader.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lab_of(world.here)
    # what compose would put into its files, at the time of `up`
    engine = tmp_path / "bin" / "docker"
    text = engine.read_text().replace(
        'case "$*" in\n',
        'case "$*" in *\' up \'*) env >"$WORLD/environment" ;; esac\ncase "$*" in\n',
        1,
    )
    engine.write_text(text)
    return world


def up(world: World, **given: str) -> tuple[subprocess.CompletedProcess[str], list[str], dict[str, str]]:
    """lab.sh up with these variables: its end, the compose files it named, what compose saw of them."""
    names = ("SITL_BINARY", "SITL_DEFAULTS", "INFLUXDB_IMAGE", "INFLUXDB_TOKEN")
    inherited = {k: v for k, v in world.environment.items() if k not in names}
    done = ended([world.here / "compose/lab.sh", "up"], 60, env={**inherited, **given}, cwd=world.here)
    lines = [line for line in world.changed() if " up " in line]
    files = re.findall(r"-f (?:compose/)?(\S+\.yml)", lines[-1]) if lines else []
    seen: dict[str, str] = {}
    if (world.folder / "environment").is_file():
        rows = (world.folder / "environment").read_text().splitlines()
        seen = dict(row.split("=", 1) for row in rows if row.split("=", 1)[0] in names)
    return done, files, seen


def overlay(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((ROOT / "compose" / name).read_text(), Loader)
    return document["services"]


def test_defaults_beside_the_binary_go_with_it(world: World) -> None:
    folder = world.folder / "release"
    folder.mkdir()
    (folder / "arducopter").write_text("a binary")
    _, files, seen = up(world, SITL_BINARY=str(folder / "arducopter"))
    assert "sitl-binary.yml" in files and "sitl-defaults.yml" not in files
    (folder / "copter.parm").write_text("FRAME_CLASS 1\n")
    done, files, seen = up(world, SITL_BINARY=str(folder / "arducopter"))
    assert done.returncode == 0, done.stderr
    assert {"sitl-binary.yml", "sitl-defaults.yml"} <= set(files)
    assert seen["SITL_DEFAULTS"] == str(folder / "copter.parm")


def test_named_defaults_win_and_may_be_relative(world: World) -> None:
    for name in ("arducopter", "copter.parm", "mine.parm"):
        (world.here / name).write_text("FRAME_CLASS 1\n")
    _, files, seen = up(world, SITL_BINARY="arducopter", SITL_DEFAULTS="mine.parm")
    assert "sitl-defaults.yml" in files
    assert seen["SITL_DEFAULTS"] == str(world.here / "mine.parm")
    assert seen["SITL_BINARY"] == str(world.here / "arducopter")


def test_defaults_that_are_not_there_are_named(world: World) -> None:
    done, files, _ = up(world, SITL_DEFAULTS="/no/copter.parm")
    assert done.returncode == 4 and files == []
    assert "SITL_DEFAULTS=/no/copter.parm is not a file" in done.stderr


def test_the_file_is_where_the_service_is_told_to_look() -> None:
    sitl = overlay("sitl-defaults.yml")["sitl"]
    (volume,) = sitl["volumes"]
    assert volume == f"${{SITL_DEFAULTS}}:{sitl['environment']['SITL_DEFAULTS']}:ro"


@pytest.mark.parametrize("image", ["influxdb:2.7", "influxdb:2", "registry.example/own/influxdb:2.7-alpine"])
def test_influxdb_2_comes_with_the_labs_own_token(world: World, image: str) -> None:
    done, files, seen = up(world, INFLUXDB_IMAGE=image)
    assert done.returncode == 0, done.stderr
    assert "influxdb2.yml" in files
    kept = world.here / "keys" / "influxdb" / "token.secret"
    assert re.fullmatch(r"[0-9a-f]{64}", kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert seen["INFLUXDB_TOKEN"] == kept.read_text()
    _, _, again = up(world, INFLUXDB_IMAGE=image)
    assert again["INFLUXDB_TOKEN"] == seen["INFLUXDB_TOKEN"], "one token for a lab, not one a start"


def test_a_token_of_the_users_is_taken(world: World) -> None:
    _, _, seen = up(world, INFLUXDB_IMAGE="influxdb:2.7", INFLUXDB_TOKEN="mine")
    assert seen["INFLUXDB_TOKEN"] == "mine"
    assert not (world.here / "keys" / "influxdb").exists()


@pytest.mark.parametrize("image", ["", "influxdb:1.8", "my/telegraf-influxdb:2.7"])
def test_any_other_database_stays_as_it_is(world: World, image: str) -> None:
    _, files, _ = up(world, **({"INFLUXDB_IMAGE": image} if image else {}))
    assert "influxdb2.yml" not in files and "lab.yml" in files
    assert not (world.here / "keys" / "influxdb").exists()


def test_influxdb_2_may_write_where_its_image_does_and_is_set_up_before_it_is_healthy() -> None:
    told = overlay("influxdb2.yml")["influxdb"]
    mounts = {mount.split(":")[0]: mount for mount in told["tmpfs"]}
    for path in ("/var/lib/influxdb2", "/etc/influxdb2"):
        assert "uid=${LAB_UID:-10001},gid=${LAB_GID:-10001}" in mounts[path]
    environment = told["environment"]
    assert environment["DOCKER_INFLUXDB_INIT_MODE"] == "setup"
    names = {environment[f"DOCKER_INFLUXDB_INIT_{name}"] for name in ("ORG", "BUCKET")}
    assert names == {"pqlab"}, "the bucket answers the 1.x API as the database that Telegraf writes to"
    assert environment["DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"].startswith("${INFLUXDB_TOKEN:?")
    assert len(environment["DOCKER_INFLUXDB_INIT_PASSWORD"]) >= 8
    kind, command = told["healthcheck"]["test"]
    assert kind == "CMD-SHELL" and command.startswith("influx bucket list "), "an answer alone is not ready"


def test_the_token_is_a_secret_that_no_bundle_may_hold(tmp_path: Path) -> None:
    (tmp_path / "influxdb").mkdir()
    (tmp_path / "influxdb" / "token.secret").write_text("ab" * 32)
    assert [path.name for path in secret_files(tmp_path)] == ["token.secret"]

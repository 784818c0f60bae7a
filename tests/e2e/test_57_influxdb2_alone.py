"""The image of InfluxDB 2 by itself, on a network without a way out: set-up, restart, bad input, dashboard.

Asked for by PQLAB_INFLUXDB2=1, as test_56_influxdb2.py is; it needs no lab.
"""

from __future__ import annotations

import os
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pqlab.influx import InfluxError, InfluxView
from pqlab.live.panels import PANELS

from .conftest import docker, run
from .influxdb2 import IMAGE, NS, Server, dashboard, live

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        os.environ.get("PQLAB_INFLUXDB2") != "1",
        reason="building InfluxDB 2 from its modules takes minutes: PQLAB_INFLUXDB2=1",
    ),
]

TOKEN = "a-token-of-this-test"
GIVEN = {
    "DOCKER_INFLUXDB_INIT_MODE": "setup",
    "DOCKER_INFLUXDB_INIT_USERNAME": "pqlab",
    "DOCKER_INFLUXDB_INIT_PASSWORD": "a-password",
    "DOCKER_INFLUXDB_INIT_ADMIN_TOKEN": TOKEN,
    "DOCKER_INFLUXDB_INIT_ORG": "pqlab",
    "DOCKER_INFLUXDB_INIT_BUCKET": "pqlab",
    "INFLUXD_REPORTING_DISABLED": "true",
    "INFLUXD_LOG_LEVEL": "warn",
}
#: room for its indexes and some thousand points
ROOM = "/var/lib/influxdb2:mode=0700,uid=10001,gid=10001,size={size}"
READY = ("influx", "bucket", "list", "--org", "pqlab", "--name", "pqlab", "--token", TOKEN)

Start = Callable[..., str]


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    built = run("./images/build.sh", "influxdb2", timeout_s=3600)
    assert built.code == 0, built.text[-3000:]
    name = f"influxdb2-{os.getpid()}"
    docker("network", "create", "--internal", name)
    yield name
    docker("network", "rm", name)


@pytest.fixture
def start(network: str) -> Iterator[Start]:
    """A container of the image with these variables beside GIVEN; its id."""
    begun: list[str] = []

    def begin(*options: str, **changed: str) -> str:
        begun.append(
            docker(
                *("run", "-d", "--init", "--network", network, "--read-only", "--cap-drop", "ALL"),
                *("--tmpfs", "/tmp:mode=1777", "--tmpfs", "/etc/influxdb2:mode=0700,uid=10001,gid=10001"),
                *variables({**GIVEN, **changed}),
                *(options or ("--tmpfs", ROOM.format(size="64m"))),
                IMAGE,
            ).strip()
        )
        return begun[-1]

    yield begin
    for one in begun:
        docker("rm", "-f", "-v", one)


def variables(given: dict[str, str]) -> list[str]:
    return [word for name, value in given.items() for word in ("-e", f"{name}={value}")]


def state(one: str) -> str:
    return docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", one).strip()


def log(one: str) -> str:
    return run("docker", "logs", one).text


def server(one: str) -> Server:
    address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", one).strip()
    return Server(f"http://{address}:8086", TOKEN)


def ready(one: str) -> Server:
    """The server as soon as it is what compose/influxdb2.yml calls healthy."""
    end = time.monotonic() + 90
    while run("docker", "exec", one, *READY).code != 0:
        assert state(one) == "running 0" and time.monotonic() < end, log(one)
        time.sleep(0.5)
    return server(one)


def refused(one: str) -> str:
    """What a container said that ended at once."""
    end = time.monotonic() + 60
    while state(one).startswith("running"):
        assert time.monotonic() < end, log(one)
        time.sleep(0.3)
    assert state(one) == "exited 1"
    return log(one)


@pytest.fixture
def volume() -> Iterator[str]:
    name = f"influxdb2-{os.getpid()}"
    docker("volume", "create", name)
    yield name
    docker("volume", "rm", name)


def test_it_runs_as_the_lab_s_user_and_answers_nobody_before_it_is_set_up(start: Start) -> None:
    one = start()
    database, answers = server(one), set()
    end = time.monotonic() + 90
    while "taken" not in answers:
        assert time.monotonic() < end, log(one)
        try:
            database.write("pq_cpu,host=drone system_pct=1")
            answers.add("taken")
        except urllib.error.HTTPError as error:
            answers.add(f"HTTP {error.code}")
        except OSError:
            answers.add("nobody")
    assert answers <= {"nobody", "taken"}
    assert docker("exec", one, "id", "-u").strip() == "10001"
    assert docker("exec", one, "influx", "bucket", "list", "--name", "pqlab", "--hide-headers").strip()


def test_it_keeps_bucket_token_and_points_over_a_restart(volume: str, start: Start) -> None:
    one = start("-v", f"{volume}:/var/lib/influxdb2")
    ready(one).write("pq_cpu,host=drone system_pct=1 1000000000")
    docker("restart", one)
    ready(one)
    docker("rm", "-f", one)
    # what a new container is told of a token says nothing to a database that is there
    again = start("-v", f"{volume}:/var/lib/influxdb2", DOCKER_INFLUXDB_INIT_ADMIN_TOKEN="another")
    assert ready(again).view.count_by_series(0, 2 * NS) == {"pq_cpu,host=drone": 1}


#: the set-up, and everything killed as soon as there is a database
KILLED = 'influxdb2-entrypoint & until [ -s "$INFLUXD_BOLT_PATH" ]; do sleep 0.02; done; kill -9 -1'


def test_a_set_up_that_was_killed_is_made_again(volume: str, start: Start) -> None:
    kept = ("-v", f"{volume}:/var/lib/influxdb2")
    run(
        "docker", "run", "--rm", "--init", *kept, *variables(GIVEN), "--entrypoint", "sh", IMAGE, "-c", KILLED
    )
    left = docker("run", "--rm", *kept, "--entrypoint", "ls", IMAGE, "/var/lib/influxdb2")
    assert "influxd.bolt" in left
    ready(start(*kept)).write("pq_cpu,host=drone system_pct=1")


@pytest.mark.parametrize(
    ("changed", "options", "told"),
    [
        ({"DOCKER_INFLUXDB_INIT_ORG": ""}, (), "influxdb2: DOCKER_INFLUXDB_INIT_ORG is empty"),
        ({"DOCKER_INFLUXDB_INIT_PASSWORD": "short"}, (), "password is too short"),
        ({}, ("--tmpfs", "/var/lib/influxdb2:mode=0700"), "influxdb2: /var/lib/influxdb2 cannot be written"),
    ],
)
def test_what_cannot_be_set_up_is_told_with_the_next_command(
    start: Start, changed: dict[str, str], options: tuple[str, ...], told: str
) -> None:
    said = refused(start(*options, **changed))
    assert told in said and "\n  next: " in said


def test_wrong_token_and_missing_bucket_are_told_by_name(start: Start) -> None:
    url = ready(start()).url
    with pytest.raises(InfluxError, match="refuses the token") as caught:
        InfluxView(url, "pqlab", token="wrong").content(0, 1)
    assert "unset INFLUXDB_TOKEN" in caught.value.hint
    with pytest.raises(InfluxError, match="has no database 'elsewhere'") as caught:
        InfluxView(url, "elsewhere", token=TOKEN).content(0, 1)
    assert "make lab-down lab-up" in caught.value.hint
    for token, database, status in (("wrong", "pqlab", 401), (TOKEN, "elsewhere", 404)):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            Server(url, token).write("pq_cpu,host=drone system_pct=1", database)
        assert refusal.value.code == status


def test_a_full_disk_is_told_and_what_was_written_can_be_read(start: Start) -> None:
    one = start("--tmpfs", ROOM.format(size="4m"))
    full = ready(one)
    full.write("pq_cpu,host=drone system_pct=1 1000000000")
    text = "x" * 20_000
    with pytest.raises(urllib.error.HTTPError) as refusal:
        for number in range(500):
            full.write(
                "\n".join(f'pq_filler,k={number} v="{text}{place}" {2 * NS + place}' for place in range(20))
            )
    assert refusal.value.code == 500
    assert "no space left on device" in log(one)
    assert full.view.content(0, 2 * NS).keys() == {"pq_cpu,host=drone"}
    assert run("docker", "exec", one, *READY).code == 0


def points(end_s: int) -> str:
    """Twenty seconds of every series that a panel draws, ten times a second, of both ends; half-way another
    cell begins, whose counters count from zero."""
    rows = []
    for tick in range(200):
        ns = (end_s - 20) * NS + tick * NS // 10
        cell, of_cell = ("b", tick) if tick < 105 else ("a", tick - 105)
        for place, host in enumerate(("drone", "gcs")):
            counter, tags = (1 + place) * of_cell * of_cell, f"cell={cell},host={host}"
            counters = (
                "tx_data rx_ok plaintext_out_bytes hs_completed rekey_completed auth_failed bad_header replay"
            )
            fields = ",".join(f"{name}={counter + number}i" for number, name in enumerate(counters.split()))
            rows += [
                f"pq_tunnel,{tags} {fields} {ns}",
                f"pq_net,{tags} udp_rcvbuf_errors={counter}i {ns}",
                f"pq_cpu,{tags} process_pct={tick % 7},system_pct={tick % 11},steal_pct={tick % 3} {ns}",
                f"pq_temp,host={host},zone=cpu temperature_c={40 + tick % 5} {ns}",
                f"pq_power,host={host},sensor=ina219,synthetic=false power_w={3 + tick % 4} {ns}",
                f"pq_detector,host={host},model=m attack_score={tick % 9},degraded_score={tick % 8} {ns}",
            ]
    return "\n".join(rows)


def test_every_query_of_the_dashboard_draws_what_the_live_view_draws(start: Start) -> None:
    database = ready(start())
    end_s = int(time.time()) - 5
    database.write(points(end_s))
    drawn, expected = dashboard(database, end_s - 20, end_s), live(database, end_s - 20, end_s)
    # a rate has none in the first second, nor in the one in which its counter begins anew
    due = {
        f"{panel.id} {place}": (1 if line.where == (("host", "drone"),) else 2)
        * (18 if line.how == "rate" else 20)
        for panel in PANELS
        for place, line in enumerate(panel.lines)
    }
    assert {name: len(values) for name, values in drawn.items()} == due
    for name, values in drawn.items():
        assert values == pytest.approx(expected[name]), name


def test_its_own_program_takes_the_dashboard(start: Start, tmp_path: Path) -> None:
    one = start()
    ready(one)
    template = Path(__file__).resolve().parents[2] / "compose" / "dashboards" / "influxdb2.json"
    written = run("docker", "exec", one, "sh", "-c", f"cat >/tmp/d.json <<'END'\n{template.read_text()}\nEND")
    assert written.code == 0, written.text
    applied = run(
        "docker", "exec", one, "influx", "apply", "--org", "pqlab", "--force", "yes", "-f", "/tmp/d.json"
    )
    assert applied.code == 0 and "PQ-MAV Lab, live" in applied.text, applied.text[-2000:]

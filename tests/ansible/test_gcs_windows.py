# ruff: noqa: E501 - a row of a table stays on its line
"""The Windows role as data: what can be known of it without a Windows machine.

Templates and variables are rendered by Ansible itself, on localhost; ports, options and environment are then compared
with what the endpoint's own code says, so that no port is typed twice.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pqsitl import mavproxy
from pqsitl.cli import build_parser
from pqsitl.settings import Settings
from pqtunnel import config
from pqtunnel.cli import _parser
from pqtunnel.config import EndpointConfig
from tools import ended

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "ansible" / "roles" / "gcs_windows"
CONTRACT_INBOUND = {
    ("tcp", config.HANDSHAKE_PORT),
    ("udp", config.SEALED_PORT["gcs"]),
    ("tcp", config.CONTROL_PORT),
}
DRONE, CONTROLLER = "192.0.2.10", "192.0.2.1"
GIVEN = {
    "lab_here": str(ROOT), "lab_artifacts": str(ROOT / "artifacts"), "lab_keys": str(ROOT / "keys"),
    "gcs_windows_drone_address": DRONE, "gcs_windows_controller_address": CONTROLLER,
    "gcs_windows_telegraf_zip": "telegraf.zip", "gcs_windows_influx_url": "http://192.0.2.1:8086",
}  # fmt: skip


def yaml_of(name: str) -> Any:
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


def play(folder: Path, tasks: list[dict[str, Any]], **more: Any) -> str:
    """Run tasks on localhost with the role's own variables; the output. The exit code is checked."""
    file = folder / "play.yml"
    variables = {**GIVEN, **more}
    names = [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")]
    # defaults of a role rank lowest: as files of variables they would win over what is given
    document = [{"hosts": "localhost", "gather_facts": False, "vars_files": names, "tasks": tasks}]
    file.write_text(yaml.safe_dump(document))
    done = ended(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), str(file)],
        100,
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(folder / "home"),
        },
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the services' settings, Telegraf's configuration and every variable of the role."""
    folder = tmp_path_factory.mktemp("windows")
    telegraf = {"src": str(ROLE / "templates/telegraf.conf.j2"), "dest": str(folder / "telegraf.conf")}
    templates = [{"ansible.builtin.template": telegraf}]
    # known only once the manifest of the artefacts is read
    names = sorted({*yaml_of("defaults/main.yml"), *yaml_of("vars/main.yml")} - {"gcs_windows_stamp"})
    variables = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    play(
        folder,
        [*templates, {"ansible.builtin.copy": {"content": variables, "dest": str(folder / "all.json")}}],
    )
    render(folder)
    return folder


def render(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """station/render with what the tests give; its exit code is checked."""
    own = {name: value for name, value in GIVEN.items() if name.startswith("gcs_windows_")}
    done = ended(
        [
            str(ROOT / "station/render"),
            str(folder),
            *(f"{name}={value}" for name, value in {**own, **more}.items()),
        ],
        100,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def variables(rendered: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((rendered / "all.json").read_text())
    return found


def tasks_of(document: Any) -> Iterator[dict[str, Any]]:
    """Every task of a list, those within blocks as well."""
    for task in document:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part) or [])


TASKS = {
    path.stem: list(tasks_of(yaml_of(f"tasks/{path.name}")))
    for path in sorted((ROLE / "tasks").glob("*.yml"))
}


def module(task: dict[str, Any], name: str) -> Any:
    return next((value for key, value in task.items() if key.endswith(f".{name}")), None)


# ---------------------------------------------------------------------- firewall


def test_the_firewall_opens_exactly_the_contracts_ports(variables: dict[str, Any]) -> None:
    rules = variables["gcs_windows_rules"]
    assert {(rule["protocol"], rule["port"]) for rule in rules} == CONTRACT_INBOUND
    assert len(rules) == len(CONTRACT_INBOUND)
    sources = {(rule["protocol"], rule["port"]): rule["remote"] for rule in rules}
    assert sources[("tcp", config.CONTROL_PORT)] == CONTROLLER
    assert {source for port, source in sources.items() if port[1] != config.CONTROL_PORT} == {DRONE}


def test_plaintext_ports_have_no_rule(variables: dict[str, Any]) -> None:
    plaintext = {*config.PLAINTEXT_IN_PORT.values(), 47002, 47004}
    assert plaintext.isdisjoint(rule["port"] for rule in variables["gcs_windows_rules"])


def test_one_task_makes_rules_and_takes_all_of_them_from_that_list() -> None:
    makers = [
        t for name in TASKS if name != "teardown" for t in TASKS[name] if module(t, "win_firewall_rule")
    ]
    assert [task["loop"] for task in makers] == ["{{ gcs_windows_rules }}"]
    rule = module(makers[0], "win_firewall_rule")
    assert (rule["direction"], rule["action"], rule["remoteip"]) == ("in", "allow", "{{ item.remote }}")
    removers = [t for t in TASKS["teardown"] if module(t, "win_firewall_rule")]
    assert [task["loop"] for task in removers] == ["{{ gcs_windows_rules }}"]
    assert module(removers[0], "win_firewall_rule")["state"] == "absent"


# ---------------------------------------------------------------------- the services

STOP_OPTION = "--stop-with-stdin"


def settings_of(folder: Path, name: str) -> tuple[list[str], dict[str, str]]:
    """(words after `-m PACKAGE`, environment) of one service's settings."""
    document = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    assert document["program"] == r"C:\Program Files\pqlab\venv\Scripts\python.exe"
    assert document["arguments"][:2] == ["-m", name.partition("-")[0]]
    assert document["arguments"][-1] == STOP_OPTION
    return document["arguments"][2:-1], document["environment"]


def test_the_endpoints_settings_are_ones_it_takes(rendered: Path) -> None:
    words, environment = settings_of(rendered, "pqtunnel-gcs")
    assert _parser().parse_args(words).verb == "gcs"
    found = EndpointConfig.from_environment("gcs", environment)
    assert (found.handshake_port, found.sealed_port, found.control_port) == (
        config.HANDSHAKE_PORT,
        config.SEALED_PORT["gcs"],
        config.CONTROL_PORT,
    )
    assert (found.peer, found.ring, found.telemetry_rate_hz) == (DRONE, "hardware", 10)
    assert {name: route.source for name, route in found.routes.items()} == {
        "mavproxy": "127.0.0.1",
        "direct": "127.0.0.1",
    }
    assert {name for name in environment if not name.startswith("PQ_")} == {
        "PYTHONPATH",
        "PYTHONUTF8",
        "PYTHONUNBUFFERED",
        "OQS_INSTALL_PATH",
    }
    assert {name for name in environment if name.startswith("PQ_")} <= {
        name for name, _, _ in config.VARIABLES
    }


def test_both_services_meet_on_the_same_ports(rendered: Path) -> None:
    _, environment = settings_of(rendered, "pqtunnel-gcs")
    endpoint = EndpointConfig.from_environment("gcs", environment)
    words, environment = settings_of(rendered, "pqsitl-ground")
    assert build_parser().parse_args(words).role == "ground"
    ground = Settings.from_environment("ground", environment)
    here = ground.listen_host
    assert endpoint.traffic_control == (here, ground.control_port)
    assert endpoint.routes["direct"].target == (here, ground.sink_port)
    assert endpoint.routes["mavproxy"].target == (here, mavproxy.GROUND_MASTER_PORT)
    assert ground.direct_target == (here, endpoint.plaintext_port)
    assert {route.source for route in endpoint.routes.values()} == {here}


def test_the_preflight_looks_at_every_port_they_listen_on(variables: dict[str, Any]) -> None:
    assert variables["gcs_windows_ports"] == {
        "tcp": [config.HANDSHAKE_PORT, config.CONTROL_PORT, 48070],
        "udp": [
            config.SEALED_PORT["gcs"],
            config.PLAINTEXT_IN_PORT["gcs"],
            mavproxy.GROUND_MASTER_PORT,
            47012,
            mavproxy.GROUND_CLIENT_PORT,
        ],
    }


def test_without_traffic_there_is_one_service_and_no_route_to_the_other(tmp_path: Path) -> None:
    done = render(tmp_path, gcs_windows_traffic="false")
    assert done.stdout.split() == [str(tmp_path / "pqtunnel-gcs.toml")]
    _, environment = settings_of(tmp_path, "pqtunnel-gcs")
    found = EndpointConfig.from_environment("gcs", environment)
    assert (set(found.routes), found.traffic_control) == ({"mavproxy"}, None)


def test_more_variables_win_and_any_letter_survives(tmp_path: Path) -> None:
    render(tmp_path, gcs_windows_environment='{PQ_BIND: 192.0.2.7, PQ_STATE: "D:\\\\Zustände \U0001f681"}')
    _, environment = settings_of(tmp_path, "pqtunnel-gcs")
    assert (environment["PQ_BIND"], environment["PQ_STATE"]) == ("192.0.2.7", "D:\\Zustände \U0001f681")


def test_render_names_a_wrong_variable(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="gcs_windows_ring"):
        render(tmp_path, gcs_windows_ring="sim")
    with pytest.raises(AssertionError, match="gcs_windows_trafic"):
        render(tmp_path, gcs_windows_trafic="false")
    assert list(tmp_path.glob("*.toml")) == []


def test_every_path_of_the_settings_is_one_the_role_makes(rendered: Path, variables: dict[str, Any]) -> None:
    folders = next(t for t in TASKS["endpoint"] if t["name"] == "Make the folders")["loop"]
    made = {variables["gcs_windows_program_dir"], variables["gcs_windows_data_dir"]}
    for name in ("program", "data"):
        start = "{{ gcs_windows_" + name + "_dir }}"
        made |= {path.replace(start, variables[f"gcs_windows_{name}_dir"]) for path in folders}
    made |= {variables["gcs_windows_venv_python"], variables["gcs_windows_program_dir"] + r"\liboqs"}
    for name in ("pqtunnel-gcs", "pqsitl-ground"):
        document = tomllib.loads((rendered / f"{name}.toml").read_text(encoding="utf-8"))
        values = [document["program"], document["directory"], document["log"].rpartition("\\")[0]]
        paths = [*values, *(value for value in document["environment"].values() if ":\\" in value)]
        assert set(paths) <= made
    for lock in variables["gcs_windows_lock_files"]:
        assert Path(lock).is_file(), lock
    oqs = next(task for task in TASKS["endpoint"] if task["name"] == "Copy liboqs")
    assert module(oqs, "win_copy")["dest"] == r"{{ gcs_windows_program_dir }}\liboqs\bin\oqs.dll"


def test_the_service_host_knows_every_setting(rendered: Path) -> None:
    """Names of the settings, as the host's own source declares them: it refuses any other."""
    source = (ROOT / "station/src/config.rs").read_text(encoding="utf-8")
    known = set(re.findall(r"^    pub (\w+):", source, re.M))
    for name in ("pqtunnel-gcs", "pqsitl-ground"):
        document = tomllib.loads((rendered / f"{name}.toml").read_text(encoding="utf-8"))
        assert set(document) == known


def test_services_run_the_host_with_their_settings_from_boot_on() -> None:
    task = next(t for t in TASKS["services"] if (module(t, "win_service") or {}).get("state") == "started")
    settings = module(task, "win_service")
    host, verb, name, file = re.findall(r'"([^"]*)"|(\S+(?: \S+ }})?)', settings["path"])
    assert host[0] == "{{ gcs_windows_host }}"
    assert (verb[1], name[1]) == ("service", "{{ item.name }}")
    written = next(t for t in TASKS["services"] if module(t, "win_template"))
    assert file[0] == module(written, "win_template")["dest"].replace("gcs_windows_service.name", "item.name")
    assert (settings["start_mode"], settings["username"]) == ("auto", "{{ gcs_windows_account }}")
    assert [action["type"] for action in settings["failure_actions"]] == ["restart"] * 3
    assert settings["failure_actions_on_non_crash_failure"] is True


def test_every_service_that_is_made_is_removed(variables: dict[str, Any]) -> None:
    assert [s["name"] for s in variables["gcs_windows_services"]] == ["pqtunnel-gcs", "pqsitl-ground"]
    removal = next(t for t in TASKS["teardown"] if t["name"] == "Remove the services")
    assert removal["loop"] == "{{ gcs_windows_services }}"
    assert module(removal, "win_service") == {"name": "{{ item.name }}", "state": "absent"}


def test_the_old_task_goes_in_both_playbooks() -> None:
    for name in ("main", "teardown"):
        assert "old_task.yml" in [module(task, "import_tasks") for task in TASKS[name]]


def test_what_is_open_is_replaced_only_while_the_services_stand() -> None:
    names = [task["name"] for task in TASKS["endpoint"]]
    stop = names.index("Stop the services while what they have open is replaced")
    for later in ("Copy liboqs", "Copy the service host", "Install the locked packages and our wheels"):
        assert stop < names.index(later)
    stopping, installing = (
        module(TASKS["endpoint"][index], "win_powershell")["parameters"]
        for index in (stop, names.index("Install the locked packages and our wheels"))
    )
    assert stopping["Stamp"] == installing["Stamp"] == "{{ gcs_windows_stamp }}"


def test_the_stamp_moves_with_artefacts_and_locks(tmp_path: Path) -> None:
    locks = tmp_path / "requirements"
    locks.mkdir()
    for name in [
        *yaml_of("vars/main.yml")["gcs_windows_locks"],
        *yaml_of("vars/main.yml")["gcs_windows_bare_locks"],
    ]:
        (locks / f"{name}.txt").write_text(f"{name}==1\n")

    def stamp(digest: str, host: str = "e") -> str:
        manifest = {"files": {"a.whl": {"sha256": digest}, "pq-station.exe": {"sha256": host}}}
        out = tmp_path / "stamp"
        copy = {"ansible.builtin.copy": {"content": "{{ gcs_windows_stamp }}", "dest": str(out)}}
        play(tmp_path, [copy], gcs_windows_tree=str(tmp_path), gcs_windows_manifest=manifest)
        return out.read_text()

    first = stamp("1")
    assert re.fullmatch(r"[0-9a-f]{40}", first)
    assert stamp("1") == first
    assert stamp("2") != first
    assert stamp("1", host="f") != first
    (locks / "sitl-nodeps.txt").write_text("sitl-nodeps==2\n")
    assert stamp("1") != first


# ---------------------------------------------------------------------- Telegraf


def test_telegraf_listens_nowhere_and_writes_to_the_database_alone(rendered: Path) -> None:
    text = (rendered / "telegraf.conf").read_text()
    document = tomllib.loads(text)
    assert set(document["inputs"]) == {"win_perf_counters"}
    assert set(document["outputs"]) == {"influxdb"}
    assert [row["urls"] for row in document["outputs"]["influxdb"]] == [[GIVEN["gcs_windows_influx_url"]]]
    assert {int(port) for port in re.findall(r":(\d{2,5})\b", text)} == {8086}
    assert "service_address" not in text


def test_windows_counters_have_a_tag_that_no_comparison_takes(rendered: Path) -> None:
    counters = tomllib.loads((rendered / "telegraf.conf").read_text())["inputs"]["win_perf_counters"][0]
    assert counters["tags"] == {"source": "telegraf-host"}
    for row in counters["object"]:
        assert row["Counters"]
        assert row["Instances"]
        assert row["Measurement"].startswith("win_")


# ---------------------------------------------------------------------- arguments


def validation(folder: Path, **given: Any) -> None:
    spec = yaml_of("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    names = sorted(yaml_of("defaults/main.yml"))
    task = {
        "ansible.builtin.validate_argument_spec": {
            "argument_spec": spec,
            "provided_arguments": "{{ {" + ", ".join(f"'{n}': {n}" for n in names) + "} }}",
        }
    }
    play(folder, [task], **given)


def test_defaults_satisfy_the_argument_spec(tmp_path: Path) -> None:
    validation(tmp_path)


@pytest.mark.parametrize("given", [{"gcs_windows_ring": "sim"}, {"gcs_windows_max_offset_ms": "soon"}])
def test_the_argument_spec_refuses(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=next(iter(given))):
        validation(tmp_path, **given)


def test_every_default_is_specified_and_every_option_has_a_default() -> None:
    options = yaml_of("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert set(options) == set(yaml_of("defaults/main.yml"))
    assert all(option["description"] for option in options.values())


# ---------------------------------------------------------------------- preflight and teardown


def preflight(folder: Path, facts: dict[str, str], **more: Any) -> None:
    """The role's own assertion on a machine's facts."""
    task = next(t for t in TASKS["preflight"] if t["name"].startswith("Stop if this is no 64-bit Windows"))
    play(folder, [{"ansible.builtin.set_fact": {"ansible_facts": facts}}, task], ansible_facts=facts, **more)


WINDOWS = {"os_family": "Windows", "architecture": "64-bit", "distribution": "Microsoft Windows 11 Pro",
           "distribution_version": "10.0.26100.0"}  # fmt: skip


def test_a_fit_windows_passes_the_preflight(tmp_path: Path) -> None:
    preflight(tmp_path, WINDOWS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"os_family": "Debian"},
        {"architecture": "32-bit"},
        {"architecture": "ARM 64-bit"},
        {"distribution_version": "10.0.14393.0"},
    ],
)
def test_an_unfit_machine_stops_with_one_sentence(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="the artefacts are for windows/amd64"):
        preflight(tmp_path, {**WINDOWS, **wrong})


def station(folder: Path, **found: Any) -> None:
    """The role's own assertions on what the station answered."""
    names = ("Stop if there is no fit Python", "Stop if another program has one of the ports")
    tasks = [t for t in TASKS["preflight"] if t["name"] in names]
    assert len(tasks) == len(names)
    answer = {"python": "3.13 64", "taken": [], **found}
    play(folder, tasks, gcs_windows_station={"result": answer})


def test_a_fit_station_passes_the_preflight(tmp_path: Path) -> None:
    station(tmp_path)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"python": "3.13 32"}, "is 3.13 32 bit, and the lab's Python is 3.13, 64 bit"),
        ({"python": "3.12 64"}, "is 3.12 64 bit, and the lab's Python is 3.13, 64 bit"),
        ({"python": ""}, "is not there, and the lab's Python is 3.13, 64 bit"),
        (
            {"taken": ["48080/tcp by other.exe"]},
            "listens on ports that the services need, 48080/tcp by other.exe",
        ),
    ],
)
def test_an_unfit_station_stops_with_one_sentence(
    tmp_path: Path, found: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        station(tmp_path, **found)
    assert sentence in " ".join(str(caught.value).split())


def test_teardown_takes_away_whatever_the_role_makes() -> None:
    made = {"win_firewall_rule", "win_file", "win_service"}
    used = {
        key.rpartition(".")[2] for name in TASKS if name != "teardown" for task in TASKS[name] for key in task
    }
    taken = {
        key.rpartition(".")[2]
        for task in TASKS["teardown"]
        for key, value in task.items()
        if isinstance(value, dict) and value.get("state") == "absent"
    }
    assert made & used == made
    assert taken == made
    restored = next(task for task in TASKS["teardown"] if task["name"].startswith("Give back"))
    script = module(restored, "win_powershell")["script"]
    kept = next(module(t, "win_powershell")["script"] for t in TASKS["before"] if module(t, "win_powershell"))
    names = re.findall(r"^\s+([a-z0-9_]+) = ", kept, re.M)
    assert names == ["power_plan", "ntp_server", "ntp_type", "w32time_start"]
    assert all(f"$before.{name}" in script for name in names)


def test_what_only_looks_runs_in_check_mode_and_changes_nothing() -> None:
    for name, tasks in TASKS.items():
        for task in tasks:
            shell = module(task, "win_powershell")
            if shell is None:
                continue
            script = shell["script"]
            looks = task.get("check_mode") is False
            waits = "ansible_check_mode" in str(task.get("when", ""))
            assert looks or waits or "$Ansible.CheckMode" in script, f"{name}: {task['name']}"
            if looks:
                assert "$Ansible.Changed = $true" not in script


def test_secrets_are_not_logged_and_only_the_service_reads_them() -> None:
    keys = next(task for task in TASKS["endpoint"] if task["name"] == "Copy the gcs's keys")
    assert keys["no_log"] is True
    assert any(module(task, "win_acl_inheritance") for task in TASKS["endpoint"])

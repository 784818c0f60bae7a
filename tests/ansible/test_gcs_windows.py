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

from pqtunnel import config
from pqtunnel.cli import _parser
from pqtunnel.config import EndpointConfig

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
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), str(file)],
        capture_output=True, text=True, timeout=100, check=False, cwd=folder,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
             "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(folder / "home")},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the command file, Telegraf's configuration and every variable of the role."""
    folder = tmp_path_factory.mktemp("windows")
    templates = [
        {
            "ansible.builtin.template": {
                "src": str(ROLE / "templates" / f"{name}.j2"),
                "dest": str(folder / name),
            }
        }
        for name in ("pqtunnel-gcs.cmd", "telegraf.conf")
    ]
    names = sorted([*yaml_of("defaults/main.yml"), *yaml_of("vars/main.yml")])
    variables = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    play(
        folder,
        [*templates, {"ansible.builtin.copy": {"content": variables, "dest": str(folder / "all.json")}}],
    )
    return folder


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


# ---------------------------------------------------------------------- the command


def command_of(rendered: Path) -> tuple[list[str], dict[str, str]]:
    """(words after `-m pqtunnel`, environment) of the rendered command file, lines joined as cmd.exe does."""
    text = (rendered / "pqtunnel-gcs.cmd").read_text().replace("^\n", " ")
    environment = dict(re.findall(r'^set "([A-Z_]+)=(.*)"$', text, re.M))
    line = next(row for row in text.splitlines() if "-m pqtunnel" in row)
    words = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line.partition(" >")[0])]
    assert words[0] == r"C:\Program Files\pqlab\venv\Scripts\python.exe"
    assert words[1:3] == ["-m", "pqtunnel"]
    return words[3:], environment


def test_the_command_is_one_the_endpoint_takes(rendered: Path) -> None:
    words, environment = command_of(rendered)
    args = _parser().parse_args(words)
    assert args.verb == "gcs"
    told = {name: value for name, _, _ in config.VARIABLES if (value := getattr(args, name)) is not None}
    found = EndpointConfig.from_environment("gcs", told)
    assert (found.handshake_port, found.sealed_port, found.control_port) == (
        config.HANDSHAKE_PORT, config.SEALED_PORT["gcs"], config.CONTROL_PORT,
    )  # fmt: skip
    assert (found.peer, found.ring) == (DRONE, "hardware")
    assert found.routes["mavproxy"].source == "127.0.0.1"
    assert found.routes["mavproxy"].target == ("127.0.0.1", 47002)
    assert set(environment) == {"PYTHONPATH", "OQS_INSTALL_PATH", "PYTHONUNBUFFERED"}


def test_every_path_of_the_command_is_one_the_role_makes(rendered: Path, variables: dict[str, Any]) -> None:
    words, environment = command_of(rendered)
    made = [variables["gcs_windows_program_dir"], variables["gcs_windows_data_dir"]]
    paths = [word for word in [*words, *environment.values()] if ":\\" in word]
    assert len(paths) == 4
    assert all(path.startswith(tuple(made)) for path in paths)
    oqs = next(task for task in TASKS["endpoint"] if task["name"] == "Copy liboqs")
    assert module(oqs, "win_copy")["dest"] == r"{{ gcs_windows_program_dir }}\liboqs\bin\oqs.dll"


def test_the_task_runs_that_command_from_boot_without_a_limit() -> None:
    task = next(t for t in TASKS["endpoint"] if module(t, "win_scheduled_task"))
    settings = module(task, "win_scheduled_task")
    assert settings["actions"][0]["path"] == "{{ gcs_windows_command_file }}"
    assert settings["triggers"] == [{"type": "boot"}]
    assert settings["execution_time_limit"] == "PT0S"
    assert settings["username"] == "{{ gcs_windows_account }}"
    assert settings["run_level"] == "limited"


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


def test_the_sampler_that_reads_proc_is_not_started(rendered: Path) -> None:
    words, _ = command_of(rendered)
    assert words[words.index("--telemetry-rate-hz") + 1] == "0"
    assert "--telegraf" not in words


# ---------------------------------------------------------------------- arguments


def validation(folder: Path, **given: Any) -> None:
    spec = yaml_of("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    names = sorted(yaml_of("defaults/main.yml"))
    task = {
        "ansible.builtin.validate_argument_spec": {
            "argument_spec": spec, "provided_arguments": "{{ {" + ", ".join(f"'{n}': {n}" for n in names) + "} }}",
        }
    }  # fmt: skip
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


def test_teardown_takes_away_whatever_the_role_makes() -> None:
    made = {"win_scheduled_task", "win_firewall_rule", "win_file", "win_service"}
    used = {
        key.rpartition(".")[2] for name in TASKS if name != "teardown" for task in TASKS[name] for key in task
    }
    taken = {
        key.rpartition(".")[2]
        for task in TASKS["teardown"] for key, value in task.items()
        if isinstance(value, dict) and value.get("state") == "absent"
    }  # fmt: skip
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

"""`pqlab setup`: asks for your hosts' addresses, writes the inventory, looks whether the hosts will do."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK, UsageError
from pqevidence.paths import project_root, shown
from pqlab.cli.common import print_json
from pqlab.doctor import exit_code, render_table
from pqlab.doctor.model import Finding, examine
from pqlab.doctor.system import System
from pqlab.inventory import variables_of
from pqlab.setup.answers import QUESTIONS, Answers, complete, from_file
from pqlab.setup.findings import requirements
from pqlab.setup.hosts import Seen, hosts_of, look
from pqlab.setup.inventory import Written, put, rendered

HELP = "write the inventory of your own hosts, and test ssh, clocks, ports and I²C there"
#: answer → variable of the inventory, by role
_VARIABLES = {
    "drone": ("drone", "ansible_host"), "drone_user": ("drone", "ansible_user"),
    "drone_link": ("drone", "pqlab_link_address"), "power": ("drone", "pqlab_power"),
    "gcs": ("gcs", "ansible_host"), "gcs_user": ("gcs", "ansible_user"),
    "gcs_link": ("gcs", "pqlab_link_address"), "controller": ("drone", "pqlab_controller_address"),
    "ring": ("drone", "pqlab_ring"),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for question in QUESTIONS:
        parser.add_argument(question.option, metavar="WORD", help=question.text)
    parser.add_argument("--answers", metavar="FILE", help='a TOML file with these, as drone = "192.0.2.10"')
    parser.add_argument("--inventory", metavar="FILE", help="the file to write (default: inventory.ini)")
    parser.add_argument(
        "--force", action="store_true", help="write over other values; the old file is kept beside it"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, test what the inventory says")
    parser.add_argument("--no-test", action="store_true", help="write the inventory and look at no host")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is there, 3 when something wanted is missing, 4 when something needed is. Raises
    UsageError (exit 2) for an answer that will not do and over an inventory with other values."""
    path = Path(args.inventory) if args.inventory else project_root() / "inventory.ini"
    written: Written | None = None
    if args.check:
        answers = _of_inventory(path)
    else:
        answers = complete(_given(args), _ask if sys.stdin.isatty() and not args.json else None)
        written = put(path, rendered(answers), force=args.force)
        if not args.json:
            print(written.told, flush=True)
    findings = [] if args.no_test else _looked_at(answers)
    code = exit_code(findings) if findings else EXIT_OK
    if args.json:
        print_json(
            {
                "inventory": shown(path),
                "how": written.how if written else "not written",
                "kept": shown(written.kept) if written and written.kept else None,
                "exit_code": code,
                "findings": [finding.as_dict() for finding in findings],
            }
        )
        return code
    if findings:
        print(render_table(findings))
    print(f"next: {_next(code, path)}")
    return code


def _next(code: int, path: Path) -> str:
    if code == EXIT_ENVIRONMENT:
        return f"put right what is missing, then: ./pqlab setup --check --inventory {shown(path)}"
    file = "" if path.resolve() == project_root() / "inventory.ini" else f" -i {path.resolve()}"
    return (
        "make keys ansible-venv, then: cd ansible && "
        f"../.venv-ansible/bin/ansible-playbook{file} provision.yml --check --diff"
    )


def _given(args: argparse.Namespace) -> Answers:
    """Answers of the file, and over them those of the options."""
    given = from_file(Path(args.answers)) if args.answers else {}
    told = ((question.key, getattr(args, question.key)) for question in QUESTIONS)
    return {**given, **{key: str(value) for key, value in told if value is not None}}


def _ask(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:
        raise UsageError(
            "unanswered",
            "the questions were not answered to the end",
            "nothing was written",
            "./pqlab setup, or give answers as options: ./pqlab setup --help",
        ) from None


def _of_inventory(path: Path) -> Answers:
    """What an inventory says, as answers. Raises UsageError (exit 2) for one that cannot be used."""
    by_role = variables_of(path)
    answers = {key: by_role[role].get(variable, "") for key, (role, variable) in _VARIABLES.items()}
    needed = [key for key in ("drone", "drone_user", "gcs", "gcs_user") if not answers[key]]
    if missing := [f"{variable} of the {role}" for role, variable in map(_VARIABLES.__getitem__, needed)]:
        raise UsageError(
            "not-reached",
            f"{shown(path)} does not say how its hosts are reached by ssh",
            f"it has no {', no '.join(missing)}",
            "./pqlab doctor --inventory FILE asks their agents instead",
        )
    windows = by_role["gcs"].get("pqlab_platform", "").startswith("windows/")
    answers |= {
        "drone_link": answers["drone_link"] or answers["drone"],
        "gcs_link": answers["gcs_link"] or answers["gcs"],
        "power": answers["power"] or "none",
        "gcs_platform": "windows" if windows else "linux",
    }
    return {question.key: answers.get(question.key, "") for question in QUESTIONS}


def _looked_at(answers: Answers) -> list[Finding]:
    hosts = hosts_of(answers)
    with ThreadPoolExecutor(len(hosts)) as pool:
        looks: list[Seen] = list(pool.map(look, hosts))
    system = System(project_root())
    return [
        finding
        for host, seen in zip(hosts, looks, strict=True)
        for finding in examine(requirements(host, seen, answers), system)
    ]

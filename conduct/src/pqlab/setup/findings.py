"""What a look at a host means: requirements in the doctor's form, each failure with one next command."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from pqlab.doctor.model import Reading, Requirement
from pqlab.doctor.pair import OFFSET_WANT_MS
from pqlab.doctor.system import System
from pqlab.setup.answers import Answers
from pqlab.setup.hosts import Host, Seen

#: what the endpoint and its traffic listen on (docs/ANSIBLE.md, "Ports that the firewall table guards")
PORTS = {
    "drone": (("tcp", 48080), ("udp", 46012), ("udp", 47003), ("udp", 47004)),
    "gcs": (("tcp", 48080), ("tcp", 46000), ("udp", 46011), ("udp", 47001), ("udp", 47002)),
}  # fmt: skip
Read = Callable[[Host, Seen, Answers], Reading]
_LISTEN = "0A"
#: what ssh says → what it means, and the next command; USER@ADDRESS and ADDRESS are put in
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (r"IDENTIFICATION HAS CHANGED", "its host key is not the one that is known here",
     "if the machine is a new one: ssh-keygen -R ADDRESS, then ssh USER@ADDRESS"),
    (r"Host key verification failed", "its host key is not known here",
     "ssh USER@ADDRESS once, and compare the key"),
    (r"Permission denied|Too many authentication", "it does not take your ssh key",
     "ssh-copy-id USER@ADDRESS"),
    (r"Could not resolve|Name or service not known", "there is no host of that name",
     "correct the address: ./pqlab setup --force"),
    (r"Connection refused", "it is there, and no ssh server listens",
     "there: sudo apt-get install openssh-server"),
    (r"no command ssh", "this machine has no ssh", "sudo apt-get install openssh-client"),
    (r"timed out|No route to host|unreachable", "it does not answer",
     "look at its power and network, then: ping ADDRESS"),
)  # fmt: skip


def requirements(host: Host, seen: Seen, answers: Answers) -> tuple[Requirement, ...]:
    """What this host has to be; the rows read what was seen, never the network."""

    def of(read: Read) -> Callable[[System], Reading]:
        return lambda _system: read(host, seen, answers)

    where = f"{host.role}, {host.login}"
    rows = [
        Requirement("ssh", "need", "lets this user in by key, without a question", of(_ssh), "", host=where)
    ]
    if seen.refused is not None:
        return tuple(rows)
    if host.windows:
        return (*rows, *_reachable(host, of, where))
    again = f"ssh {host.login}"
    rows += [
        Requirement(
            "system",
            "need",
            "a Linux with Python 3, for Ansible",
            of(_system),
            f"{again} sudo apt-get install python3",
            host=where,
        ),
        Requirement("sudo", "note", "without a password", of(_sudo), "give every playbook -K", host=where),
        Requirement(
            "clock",
            "want",
            f"within {OFFSET_WANT_MS:g} ms of this machine's",
            of(_clock),
            "provision.yml sets up time synchronisation there (role common)",
            host=where,
        ),
        Requirement("ports", "need", "free, or held by our own services", of(_ports), "", host=where),
        *_reachable(host, of, where),
        Requirement(
            "link",
            "want",
            "reaches the other end's link address",
            of(_link),
            f"{again} ping {host.peer}",
            host=where,
        ),
        Requirement(
            "controller",
            "want",
            "sees this machine at the address that is let in",
            of(_controller),
            "",
            host=where,
        ),
    ]
    if host.role == "drone":
        rows += [
            Requirement(
                "board",
                "want" if answers["ring"] == "hardware" else "note",
                "a board revision, for ring hardware",
                of(_board),
                "a Raspberry Pi, or ./pqlab setup --ring lab --force",
                host=where,
            ),
            Requirement(
                "i2c",
                "note",
                "a bus for the power sensor",
                of(_i2c),
                "provision.yml turns it on and reboots once (role companion_pi)",
                host=where,
            ),
        ]
    return tuple(rows)


def _reachable(
    host: Host, of: Callable[[Read], Callable[[System], Reading]], where: str
) -> tuple[Requirement, ...]:
    return (
        Requirement(
            "control port",
            "need",
            "48080/tcp is not swallowed on the way",
            of(_control),
            f"open 48080/tcp of {host.address} for this machine in the firewall between",
            host=where,
        ),
    )


def _ssh(host: Host, seen: Seen, _answers: Answers) -> Reading:
    if seen.refused is None:
        return Reading(True, "lets this user in")
    for pattern, meaning, command in _REFUSALS:
        if re.search(pattern, seen.refused):
            command = command.replace("USER@ADDRESS", host.login).replace("ADDRESS", host.address)
            return Reading(False, f"{meaning} ({seen.refused.splitlines()[-1]})", command)
    return Reading(False, seen.refused.splitlines()[-1], f"ssh -v {host.login}")


def _unseen(seen: Seen) -> Reading | None:
    """Why nothing is known although ssh worked, or None."""
    if seen.whole:
        return None
    return Reading(None, "its shell did not answer to the end", "log in by hand: its shell must be POSIX's")


def _system(_host: Host, seen: Seen, _answers: Answers) -> Reading:
    lacking = _unseen(seen)
    if lacking is not None:
        return lacking
    system, python = seen.one("system"), seen.one("python")
    if not system.startswith("Linux"):
        return Reading(False, f"it is a {system or 'system without uname'}", "a Linux host; docs/HARDWARE.md")
    return Reading(bool(python), f"{system}, {python or 'no python3'}")


def _sudo(_host: Host, seen: Seen, _answers: Answers) -> Reading:
    can = seen.one("sudo") == "yes"
    return _unseen(seen) or Reading(can, "without a password" if can else "asks for a password, or refuses")


def _clock(_host: Host, seen: Seen, _answers: Answers) -> Reading:
    if seen.offset is None:
        return Reading(None, seen.no_clock)
    told = f"{seen.offset.offset_ms:+.1f} ms ± {seen.offset.bound_ms:.1f} ms of this machine's"
    return Reading(abs(seen.offset.offset_ms) - seen.offset.bound_ms <= OFFSET_WANT_MS, told)


def _ports(host: Host, seen: Seen, _answers: Answers) -> Reading:
    lacking = _unseen(seen)
    if lacking is not None:
        return lacking
    taken = [(kind, port) for kind, port in PORTS[host.role] if (kind, port) in _bound(seen)]
    told = ", ".join(f"{port}/{kind}" for kind, port in PORTS[host.role])
    ours = seen.facts.get("unit", [])
    if taken and not ours:
        kind, port = taken[0]
        return Reading(
            False,
            f"taken by another program: {', '.join(f'{p}/{k}' for k, p in taken)}",
            f"ssh {host.login} sudo ss -lnp{kind[0]} sport = :{port}",
        )
    return Reading(True, f"{told}: {'held by ' + ', '.join(ours) if ours else 'free'}")


def _bound(seen: Seen) -> set[tuple[str, int]]:
    """(tcp or udp, port) that something listens on (proc(5), /proc/net/tcp: address:port in hex)."""
    found: set[tuple[str, int]] = set()
    for line in seen.facts.get("net", []):
        table, *columns = line.split()
        kind = table[:3]
        if len(columns) > 3 and columns[0].endswith(":") and (kind == "udp" or columns[3] == _LISTEN):
            found.add((kind, int(columns[1].rpartition(":")[2], 16)))
    return found


def _control(_host: Host, seen: Seen, _answers: Answers) -> Reading:
    told = {
        "open": "an agent, or something else, listens",
        "refused": "reached; nothing listens yet",
        "silent": "no answer at all",
    }
    return Reading(seen.control != "silent", told[seen.control])


def _link(host: Host, seen: Seen, _answers: Answers) -> Reading:
    answer = seen.one("peer")
    if answer == "unknown":
        return Reading(None, "cannot be asked: it has no ping")
    return _unseen(seen) or Reading(
        answer == "yes", f"{host.peer} {'answers' if answer == 'yes' else 'does not answer'} from there"
    )


def _controller(host: Host, seen: Seen, answers: Answers) -> Reading:
    lacking = _unseen(seen)
    if lacking is not None:
        return lacking
    at = seen.one("seen")
    if not at:
        return Reading(None, "it does not say where it sees us", f"ssh {host.login} echo '$SSH_CONNECTION'")
    same = at.removeprefix("::ffff:") == answers["controller"] or not _is_ip(answers["controller"])
    return Reading(
        same,
        f"sees this machine at {at}" + ("" if same else f", and {answers['controller']} is let in"),
        f"./pqlab setup --controller {at} --force",
    )


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False  # a name: whoever reads it there finds its own way
    return True


def _board(_host: Host, seen: Seen, _answers: Answers) -> Reading:
    there = seen.one("revision") == "yes"
    model = seen.one("model") or "no board that tells its model"
    return _unseen(seen) or Reading(there, model if there else f"{model}, without a revision")


def _i2c(_host: Host, seen: Seen, answers: Answers) -> Reading:
    lacking = _unseen(seen)
    if lacking is not None:
        return lacking
    if answers["power"] in ("none", "pmic"):
        return Reading(True, f"power sensor {answers['power']}: no bus is needed")
    buses = seen.facts.get("i2c", [])
    return Reading(bool(buses), ", ".join(buses) if buses else "no I²C bus yet")

"""The two network namespaces of the bench and the veth pair between them.

`drone` is the container's own namespace (started with no network), `gcs` a second one that a sleeping child
holds open. Both belong to the container's processes alone, so nothing is left when the container ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from pqbench.children import child, output_of
from pqbench.errors import BenchError

Side = Literal["drone", "gcs"]
SIDES: Final[tuple[Side, Side]] = ("drone", "gcs")
ADDRESS: Final[dict[Side, str]] = {"drone": "198.18.64.1", "gcs": "198.18.64.2"}
INTERFACE: Final[dict[Side, str]] = {"drone": "bench-drone", "gcs": "bench-gcs"}


class Spaces:
    """Prefixes commands so that they run at one side."""

    def __init__(self, holder_pid: int) -> None:
        self._holder_pid = holder_pid

    def at(self, side: Side, *command: str) -> list[str]:
        """`command`, to be run at `side`."""
        if side == "drone":
            return list(command)
        return ["nsenter", f"--net=/proc/{self._holder_pid}/ns/net", *command]

    def ip(self, side: Side, *words: str) -> None:
        """Run ip(8) at `side`. Raises ChildFailed."""
        output_of(self.at(side, "ip", *words))


def _check_alone() -> None:
    names = {line.split(": ")[1].split("@")[0] for line in output_of(["ip", "-o", "link"]).splitlines()}
    # Tunnel devices that a kernel puts into every new namespace are down and carry nothing.
    foreign = {name for name in names if not name.startswith(("lo", "tunl", "gre", "erspan", "ip", "sit"))}
    if foreign:
        raise BenchError(
            f"this is not a network namespace of the bench's own: it has {', '.join(sorted(foreign))}",
            hint="start it by `make bench`",
        )


@contextmanager
def spaces() -> Iterator[Spaces]:
    """Both sides, joined. Raises BenchError outside a namespace without any network."""
    _check_alone()
    with child("the gcs side", ["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"]) as holder:
        holder.wait_ready()
        made = Spaces(holder.process.pid)
        peer = ("peer", "name", INTERFACE["gcs"], "netns", str(holder.process.pid))
        made.ip("drone", "link", "add", INTERFACE["drone"], "type", "veth", *peer)
        try:
            for side in SIDES:
                made.ip(side, "address", "add", f"{ADDRESS[side]}/24", "dev", INTERFACE[side])
                for device in ("lo", INTERFACE[side]):
                    made.ip(side, "link", "set", device, "up")
            yield made
        finally:
            made.ip("drone", "link", "delete", INTERFACE["drone"])

"""When two builds are one build: the rule that the campaign, the doctor and the checks share."""

from __future__ import annotations

from pqbase.documents import Json, part_of


def comparable(providers: Json, *, binaries: bool, patch_levels: bool = True) -> Json:
    """What of one end's providers counts in a comparison.

    Where a file lies makes no other build of it. Its digest counts only with `binaries`: between equal
    architectures. Python counts as major.minor without `patch_levels`: two platforms get their patch levels
    from different hands (Debian's, python.org's), so nobody can choose the same for both.
    """
    no_matter = {"path"} if binaries else {"path", "sha256"}
    kept: Json = {
        name: {key: value for key, value in told.items() if key not in no_matter}
        if isinstance(told, dict)
        else told
        for name, told in providers.items()
    }
    if not patch_levels and "python" in kept:
        kept["python"] = minor_version(kept["python"])
    return kept


def minor_version(python: object) -> str:
    """`3.13` of `3.13.5`."""
    return ".".join(str(python).split(".")[:2])


def same_machine(hello: dict[str, Json]) -> bool:
    """Are both ends of one architecture and operating system, so that their files can be the same?"""
    hosts = [part_of(facts, "host") for facts in hello.values()]
    return len({(host.get("machine"), host.get("os")) for host in hosts}) == 1

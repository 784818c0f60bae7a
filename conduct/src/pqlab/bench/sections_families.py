"""The appendix of `primitives-2026-01`: what a NIST level and a family stand for."""

from __future__ import annotations

from collections import defaultdict

from pqevidence.report import blocks
from pqevidence.report.blocks import Column, Table, label
from pqtunnel.suites import KEM_FAMILIES, KEMS, SIG_FAMILIES, SIGS

#: family → what its security rests on
HARD_PROBLEM = {
    "ML-KEM": "module learning with errors",
    "HQC": "decoding of quasi-cyclic codes",
    "Classic-McEliece": "decoding of Goppa codes",
    "ML-DSA": "module learning with errors, short integer solutions",
    "Falcon": "short vectors in NTRU lattices",
    "SPHINCS+": "properties of its hash function",
}
#: NIST level → the attack that it is to be as hard as (call for proposals of 2016, §4.A.5)
AS_HARD_AS = {
    1: "key search on AES-128",
    2: "collision search on SHA-256",
    3: "key search on AES-192",
    4: "collision search on SHA-384",
    5: "key search on AES-256",
}


def levels_table(where: str) -> Table:
    """Five levels, and the algorithms of this registry at each."""
    names: dict[int, list[str]] = defaultdict(list)
    for registry in (KEMS, SIGS):
        for algorithm in registry.values():
            names[algorithm.level].append(algorithm.name)
    rows = [
        [label(f"L{level}"), label(what), label(", ".join(names[level]) or "none in this registry")]
        for level, what in AS_HARD_AS.items()
    ]
    return Table(
        "bench-levels",
        "NIST levels",
        (Column("level"), Column("at least as hard as"), Column("algorithms")),
        blocks.rows_of(rows),
        where,
        None,
        "The published appendix gives bits of classical and quantum security. NIST defines its levels by "
        "comparison and not in bits. ML-DSA-44, of level 2, stands with level 1, as the suites pair it.",
        sortable=False,
    )


def families_table(where: str) -> Table:
    """Each family with its members and what its security rests on."""
    rows = []
    for kind, registry, families in (("KEM", KEMS, KEM_FAMILIES), ("signature", SIGS, SIG_FAMILIES)):
        for token, name in families.items():
            members = [one.name for one in registry.values() if one.family == token]
            if members:
                rows.append(
                    [
                        label(name),
                        label(kind),
                        label(", ".join(members)),
                        label(HARD_PROBLEM.get(name, "not stated here")),
                    ]
                )
    columns = tuple(Column(name) for name in ("family", "kind", "members", "rests on"))
    return Table("bench-families", "Families", columns, blocks.rows_of(rows), where, None, sortable=False)

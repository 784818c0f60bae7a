"""The words that a report does not leave unexplained: each is told where the page first uses it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pqevidence.report import blocks
from pqevidence.report.blocks import Section

#: term → (how it is recognised, what it means)
GLOSSARY: dict[str, tuple[str, str]] = {
    "suite": (
        r"\bsuites?\b",
        "a key exchange (KEM), a cipher (AEAD) and a signature that are used together, named in that order",
    ),
    "condition": (
        r"\bconditions?\b",
        "what is asked of a cell beside its suite: link, attack, detector, rekeys",
    ),
    "cell": (r"\bcells?\b", "one suite under one condition, measured once"),
    "ring": (
        r"\bring\b",
        "what a number may claim: sim is virtual time and says nothing of a machine, lab is containers on "
        "one machine, hardware is machines of their own",
    ),
    "cold handshake": (r"\bcold handshakes?\b", "one that makes its key pair anew, as a first link does"),
    "p50, p99": (r"\bp99\b", "half, and 99 of 100, came at most this late"),
    "span cover": (
        r"\bspan cover\b",
        "the share of an end's handshake that its separately timed steps add up to; the rest was not timed",
    ),
    "block": (r"\bblocks?\b", "one repetition of everything, in random order"),
    "noise floor": (r"\bnoise floor\b", "how far apart equal cells come out; nothing smaller is claimed"),
    "goodput": (r"\bgoodput\b", "payload that arrived, without headers"),
    "knee": (r"\bknee\b", "the highest offered rate that the tunnel still carried"),
    "ledger": (r"\bledgers?\b", "the list of every datagram with its times, kept by each end"),
    "steal": (r"\bsteal\b", "processor time that the hypervisor gave to other machines"),
    "Φ(R)": (
        r"Φ",
        "share of a session spent in handshakes when keys are renewed every R seconds: T / (R + T), with T "
        "the time of one handshake",
    ),
    "blackout": (r"\bblackout\b", "what a pause in the traffic grew by while keys were changed"),
    "canary": (
        r"\bcanar(?:y|ies)\b",
        "a known attack after the measured part of a cell; a detector that does not raise it could not see",
    ),
}  # fmt: skip


def with_words(sections: Iterable[Section]) -> tuple[Section, ...]:
    """The same sections, each with the terms that no section before it has used."""
    left = {term: re.compile(found, re.IGNORECASE) for term, (found, _) in GLOSSARY.items()}
    told = []
    for section in sections:
        text = "\n".join(_texts(section))
        new = [term for term, pattern in left.items() if pattern.search(text)]
        for term in new:
            del left[term]
        told.append(replace(section, words=tuple((term, GLOSSARY[term][1]) for term in new)))
    return tuple(told)


def _texts(section: Section) -> Iterator[str]:
    """What the section says in words of its own: no values, but heads, captions and sentences."""
    yield from (section.title, section.lead or "")
    for block in section.blocks:
        if isinstance(block, blocks.Paragraphs):
            yield from block.sentences
        elif isinstance(block, blocks.Table):
            yield from (block.caption, block.note or "", f"ring {block.ring}")
            yield from (column.label for column in block.columns)
        elif isinstance(block, blocks.Figure):
            yield from (block.caption, f"ring {block.ring}", *(name for _, name in block.legend))
        elif isinstance(block, blocks.Findings):
            yield from (item.statement for item in block.items)

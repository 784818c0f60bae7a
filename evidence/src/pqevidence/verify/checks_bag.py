"""Fixity: the bag's tag files, every payload byte, and the crate that lists them."""

from __future__ import annotations

import hashlib

from pqbase.documents import Json
from pqevidence.bundle import attribution
from pqevidence.bundle.bag import (
    BAGIT_TXT,
    INFO,
    MANIFEST,
    TAG_FILES,
    TAGMANIFEST,
    read_manifest,
    sha512_file,
    tag_files,
)
from pqevidence.bundle.crate import METADATA
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import read_object


def structure(bundle: BundleView, tally: Tally) -> None:
    """bagit.txt says BagIt 1.0, UTF-8; both manifests are readable; nothing else is beside data/."""
    for name in (*TAG_FILES, TAGMANIFEST):
        tally.see()
        tally.require((bundle.root / name).is_file(), f"{name} is missing")
    declared = bundle.root / "bagit.txt"
    if declared.is_file():
        tally.require(declared.read_bytes() == BAGIT_TXT.encode(), "bagit.txt declares something else")
    known = {*TAG_FILES, INFO, TAGMANIFEST, "data"}
    for path in bundle.root.iterdir():
        tally.require(path.name in known, f"{path.name} lies beside data/")
    for name in (MANIFEST, TAGMANIFEST):
        if (bundle.root / name).is_file():
            read_manifest(bundle.root / name)
    for name in read_manifest(bundle.root / MANIFEST):
        inside = name.startswith("data/") and ".." not in name.split("/")
        tally.require(inside, f"{MANIFEST} names {name}, outside data/")


def tag_fixity(bundle: BundleView, tally: Tally) -> None:
    """Every tag file has the digest of the tag manifest, and each of them is listed there."""
    listed = read_manifest(bundle.root / TAGMANIFEST)
    for name in tag_files(bundle.root):
        tally.see()
        if name not in listed:
            tally.fail(f"{name} is not in {TAGMANIFEST}")
    for name, digest in listed.items():
        path = bundle.root / name
        if name not in (*TAG_FILES, INFO) or not path.is_file():
            tally.fail(f"{TAGMANIFEST} names {name}")
        elif sha512_file(path) != digest:
            tally.fail(f"{name} has changed since it was sealed")


def payload_fixity(bundle: BundleView, tally: Tally) -> None:
    """Every payload file has its digest; none is missing, none is unlisted."""
    listed = read_manifest(bundle.root / MANIFEST)
    present, above = set(bundle.payload), f"{bundle.root}/"
    for name in sorted(set(listed) - present):
        tally.fail(f"{name} is missing")
    for name in sorted(present - set(listed)):
        tally.fail(f"{name} was added after sealing")
    for name in sorted(present & set(listed)):
        tally.see()
        content = bundle.contents.get(name)
        found = sha512_file(above + name) if content is None else hashlib.sha512(content).hexdigest()
        if found != listed[name]:
            tally.fail(f"{name} has changed since it was sealed")


def attributed(bundle: BundleView, tally: Tally) -> None:
    """CITATION.cff, bag-info.txt and the crate name the authors, the licence and the citation of
    attribution.json; without it none of them names any."""
    tally.see()
    told, info = attribution.read(bundle.data), bundle.root / INFO
    citation = bundle.data / attribution.CITATION
    document = read_object(bundle.data / METADATA)
    root: Json = next((entity for entity in document["@graph"] if entity.get("@id") == "./"), {})
    if told is None:
        named = [path.name for path in (citation, info) if path.is_file()]
        named += [f"{METADATA}: {key}" for key in ("author", "creditText", "sameAs") if key in root]
        tally.require(not named, f"{', '.join(named)}: there is no {attribution.FILE} to say so")
        return
    for path, due in (
        (citation, attribution.citation_text(told, bundle.raw.run)),
        (info, attribution.bag_info(bundle.root)),
    ):
        text = path.read_text(encoding="utf-8") if path.is_file() else None
        tally.require(text == due, f"{path.name} is not what {attribution.FILE} gives")
    for key, value in attribution.crate_entities(told)[0].items():
        tally.require(root.get(key) == value, f"{key} of {METADATA} is not that of {attribution.FILE}")
    for entity in attribution.crate_entities(told)[1]:
        there = entity in document["@graph"]
        tally.require(there, f"{entity['name']} in {METADATA} is not as in {attribution.FILE}")


def crate(bundle: BundleView, tally: Tally) -> None:
    """ro-crate-metadata.json describes the folder, lists every file, and names none that is not there."""
    document = read_object(bundle.data / METADATA)
    entities: dict[str, Json] = {str(entity["@id"]): entity for entity in document["@graph"]}
    about = entities.get(METADATA, {}).get("about", {})
    tally.require(about == {"@id": "./"}, f"{METADATA} does not describe ./")
    tally.require("./" in entities, "the root dataset is missing")
    run_id = str(bundle.plan.get("run_id"))
    tally.require(
        entities.get("./", {}).get("identifier") == run_id, f"the crate's identifier is not {run_id}"
    )
    files = {name.removeprefix("data/") for name in bundle.payload} - {METADATA}
    for name in sorted(files):
        tally.see()
        entity = entities.get(name)
        if entity is None or entity.get("@type") != "File":
            tally.fail(f"{name} is not listed")
        elif entity.get("contentSize") != str((bundle.data / name).stat().st_size):
            tally.fail(f"{name} is listed with {entity.get('contentSize')} bytes")
    for name, entity in entities.items():
        if entity.get("@type") == "File" and name not in files:
            tally.fail(f"{name} is listed and not there")

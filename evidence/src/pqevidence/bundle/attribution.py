"""Who made a bundle, under which licence, and how to cite it: given once in `attribution.yml`, kept in the
bundle as attribution.json, and from there in CITATION.cff, bag-info.txt and the crate, so that they agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml

from pqbase.documents import Json, rows_of
from pqevidence.bundle.bag import payload
from pqevidence.errors import UsageError

#: beside scenarios/ in the checkout; in the bundle, below data/
CONFIG = "attribution.yml"
FILE = "attribution.json"
CITATION = "CITATION.cff"
_KEYS = {"title", "license", "authors", "citation", "doi"}
_AUTHOR_KEYS = {"given_names", "family_names", "orcid", "affiliation"}
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_ORCID = re.compile(r"\d{4}-\d{4}-\d{4}-\d{3}[\dX]")
_DOI = re.compile(r"10\.\d{4,9}/\S+")


def read_config(path: Path) -> Json | None:
    """attribution.yml as it goes into a bundle; None where there is no such file.

    Keys: license (SPDX), authors (family_names, given_names, orcid, affiliation), and where wanted title,
    citation, doi. Raises UsageError `bad-attribution` for a file that says something else.
    """
    if not path.is_file():
        return None
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _bad(path, f"it is no YAML: {error}") from error
    if problem := next(_problems(told), None):
        raise _bad(path, problem)
    return {"schema_version": "pqlab/attribution/v1", **told}


def read(data: Path) -> Json | None:
    """attribution.json of a bundle; None where nobody said who made it."""
    path = data / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def write_citation(data: Path) -> None:
    """Write CITATION.cff below `data`, where attribution.json says who made it."""
    if (told := read(data)) is not None:
        (data / CITATION).write_text(citation_text(told, _run(data)), encoding="utf-8", newline="\n")


def bag_info(root: Path) -> str | None:
    """bag-info.txt for the payload that lies there now; None where nobody said who made it."""
    told = read(root / "data")
    if told is None:
        return None
    return bag_info_text(told, _run(root / "data"), [(root / name).stat().st_size for name in payload(root)])


def _run(data: Path) -> Json:
    return dict(json.loads((data / "run.json").read_text(encoding="utf-8")))


def citation_text(told: Json, run: Json) -> str:
    """CITATION.cff 1.2.0. Every text is written as JSON, which YAML reads."""
    lines = [
        "cff-version: 1.2.0",
        f"message: {_quoted(str(told.get('citation') or 'If you use this bundle, cite it as below.'))}",
        "type: dataset",
        f"title: {_quoted(title(told, run))}",
        "authors:",
    ]
    for author in rows_of(told, "authors"):
        lines.append(f"  - family-names: {_quoted(str(author['family_names']))}")
        for key, name in (("given_names", "given-names"), ("affiliation", "affiliation")):
            if author.get(key):
                lines.append(f"    {name}: {_quoted(str(author[key]))}")
        if author.get("orcid"):
            lines.append(f"    orcid: {_quoted(orcid_url(author))}")
    lines.append(f"license: {_quoted(str(told['license']))}")
    if told.get("doi"):
        lines.append(f"doi: {_quoted(str(told['doi']))}")
    lines += ["identifiers:", "  - type: other", f"    value: {_quoted(str(run['run_id']))}"]
    if day := _day(run):
        lines.append(f"date-released: {_quoted(day)}")
    return "\n".join(lines) + "\n"


def bag_info_text(told: Json, run: Json, sizes_bytes: list[int]) -> str:
    """bag-info.txt (RFC 8493, 2.2.2). sizes_bytes: of every file of the payload."""
    rows = [("External-Identifier", str(run["run_id"])), ("External-Description", title(told, run))]
    if day := _day(run):
        rows.append(("Bagging-Date", day))
    rows.append(("Payload-Oxum", f"{sum(sizes_bytes)}.{len(sizes_bytes)}"))
    authors = rows_of(told, "authors")
    organisations = dict.fromkeys(str(a["affiliation"]) for a in authors if a.get("affiliation"))
    rows += [("Source-Organization", name) for name in organisations]
    for author in authors:
        rows.append(("Author", name_of(author)))
        if author.get("orcid"):
            rows.append(("Author-ORCID", orcid_url(author)))
    rows.append(("License", str(told["license"])))
    if told.get("doi"):
        rows.append(("DOI", str(told["doi"])))
    if told.get("citation"):
        rows.append(("Citation", str(told["citation"])))
    rows.append(("Bag-Software-Agent", f"pqlab {run.get('pqlab_version', 'unknown')}"))
    return "".join(f"{name}: {value}\n" for name, value in rows)


def crate_entities(told: Json) -> tuple[Json, list[Json]]:
    """What the crate's root says of it, and the entities that this names."""
    license_id = f"https://spdx.org/licenses/{told['license']}"
    entities: list[Json] = [{"@id": license_id, "@type": "CreativeWork", "name": told["license"]}]
    authors: list[Json] = []
    places: dict[str, str] = {}
    for number, author in enumerate(rows_of(told, "authors"), 1):
        person: Json = {
            "@id": orcid_url(author) if author.get("orcid") else f"#author-{number}",
            "@type": "Person",
            "name": name_of(author),
        }
        if place := str(author.get("affiliation") or ""):
            key = places.setdefault(place, f"#organisation-{len(places) + 1}")
            person["affiliation"] = {"@id": key}
        entities.append(person)
        authors.append({"@id": person["@id"]})
    entities += [{"@id": key, "@type": "Organization", "name": place} for place, key in places.items()]
    root: Json = {"license": {"@id": license_id}, "author": authors}
    if told.get("citation"):
        root["creditText"] = told["citation"]
    if told.get("doi"):
        root["sameAs"] = f"https://doi.org/{told['doi']}"
    return root, entities


def title(told: Json, run: Json) -> str:
    """The title given, else the campaign's."""
    return str(told.get("title") or f"Post-quantum MAVLink tunnel campaign {run['run_id']}")


def name_of(author: Json) -> str:
    """Given names, then family names."""
    return " ".join(str(part) for part in (author.get("given_names"), author["family_names"]) if part)


def orcid_url(author: Json) -> str:
    """An ORCID iD in the form that its owner asks for."""
    return f"https://orcid.org/{author['orcid']}"


def _problems(told: object) -> Iterator[str]:
    if not isinstance(told, dict):
        yield "it is no mapping"
        return
    authors = told.get("authors")
    if not isinstance(authors, list) or not authors or not all(isinstance(a, dict) for a in authors):
        yield "`authors` is no list of authors"
        return
    if unknown := sorted(map(str, set(told) - _KEYS)):
        yield f"`{unknown[0]}` is no key of it"
    for key, value in (*told.items(), *(item for author in authors for item in author.items())):
        if key != "authors" and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
            yield f"`{key}` is no text of one line"
            return
    if not _SPDX.fullmatch(told.get("license", "")):
        yield "`license` is no SPDX identifier, such as CC-BY-4.0"
    if "doi" in told and not _DOI.fullmatch(told["doi"]):
        yield "`doi` does not read 10.…/…"
    for author in authors:
        if unknown := sorted(map(str, set(author) - _AUTHOR_KEYS)):
            yield f"`{unknown[0]}` is no key of an author"
        if "family_names" not in author:
            yield "an author has no `family_names`"
        if "orcid" in author and not valid_orcid(author["orcid"]):
            yield f"`orcid` {author['orcid']} is none: its last digit checks the others"


def valid_orcid(text: str) -> bool:
    """Sixteen digits in fours, the last by ISO 7064 MOD 11-2."""
    if not _ORCID.fullmatch(text):
        return False
    total = 0
    for digit in text.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    check = (12 - total % 11) % 11
    return text[-1] == ("X" if check == 10 else str(check))


def _day(run: Json) -> str | None:
    ended = run.get("ended_ns")
    return datetime.fromtimestamp(ended // 10**9, UTC).date().isoformat() if isinstance(ended, int) else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bad(path: Path, why: str) -> UsageError:
    return UsageError(
        "bad-attribution",
        f"{path.name} cannot be used",
        why,
        'docs/BUNDLE.md, "Who made it", has an example; without the file a bundle names nobody',
    )

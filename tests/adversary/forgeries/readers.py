"""What readers and their programs believe beside the numbers: metadata, dictionaries, files of nobody."""

from __future__ import annotations

import hashlib

from adversary.catalogue import forgery
from adversary.forgeries.relabel import digest
from adversary.raw import Bundle, Json, save


@forgery("readers misled", "lab", "sim", last=True)
def dictionary_of_another_unit(bundle: Bundle) -> None:
    """Handshakes last microseconds: the dictionary of fields in the bundle says so."""
    path = bundle.data / "format" / "fields.json"
    text = path.read_text(encoding="utf-8")
    assert '"ms"' in text
    path.write_text(text.replace('"ms"', '"us"'), encoding="utf-8")


@forgery("readers misled", "lab", "sim", last=True)
def package_of_another_unit(bundle: Bundle) -> None:
    """Columns in milliseconds are in seconds, says the data package that tools read units from."""
    path = bundle.data / "datapackage.json"
    text = path.read_text(encoding="utf-8")
    assert '"ms"' in text
    path.write_text(text.replace('"ms"', '"s"'), encoding="utf-8")
    _sized(bundle)


@forgery("readers misled", "lab", "sim", last=True)
def crate_of_another_campaign(bundle: Bundle) -> None:
    """Catalogues and search engines describe the run as one on a Raspberry Pi 5, a year earlier."""

    def other(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@id") == "./":
                entity.update(
                    name="Tunnel campaign on a Raspberry Pi 5", datePublished="2025-03-01T12:00:00+00:00"
                )

    bundle.edit("ro-crate-metadata.json", other)
    _sized(bundle)


@forgery("readers misled", "lab", last=True)
def schema_that_lets_everything_by(bundle: Bundle) -> None:
    """Records are checked against the schema in the bundle, and any record fits it."""
    path = bundle.data / "format" / "record.schema.json"
    path.write_text('{"$schema": "https://json-schema.org/draft/2020-12/schema"}\n', encoding="utf-8")
    _sized(bundle)


def _sized(bundle: Bundle) -> None:
    """Sizes in the crate are those of the files."""

    def sizes(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@type") == "File" and "contentSize" in entity:
                entity["contentSize"] = str((bundle.data / entity["@id"]).stat().st_size)

    bundle.edit("ro-crate-metadata.json", sizes)


@forgery("readers misled", "lab", "sim", last=True)
def two_values_of_one_key(bundle: Bundle) -> None:
    """A record has its time twice: the first one, which a reader sees, is a tenth of the last one, which a
    program takes."""
    for cell in bundle.cells:
        path = cell.folder / "record.json"
        text = path.read_text(encoding="utf-8")
        name = '"handshake_total_duration_ms": {'
        assert name in text
        field = '"handshake_total_duration_ms": {"value": 0.1, "unit": "ms", "validity": "ok", "n": 12},\n'
        path.write_text(text.replace(name, field + name, 1), encoding="utf-8")
    digest(bundle)
    _sized(bundle)


@forgery("readers misled", "lab", last=True)
def two_seeds_in_the_plan(bundle: Bundle) -> None:
    """The plan names the published seed first, and the one that was used after it."""
    path = bundle.data / "plan.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{", '{"seed": 424242, ', 1), encoding="utf-8")
    digest(bundle)
    _sized(bundle)


@forgery("extra files", "sim", "lab", pages=False)
def table_by_hand(bundle: Bundle) -> None:
    """A table beside the others has the numbers that everybody wants."""
    (bundle.data / "analysis" / "summary.csv").write_text("suite_id,median_ms\nall,0.1\n")


@forgery("extra files", "sim", "lab")
def trace_that_nobody_names(bundle: Bundle) -> None:
    """The run replayed a flight's radio trace: it lies in the bundle."""
    text = b"t_ms,rate_kbit_s,delay_ms,loss\n0,1000,20,0\n"
    (bundle.data / "traces").mkdir(exist_ok=True)
    (bundle.data / "traces" / f"{hashlib.sha256(text).hexdigest()}.csv").write_bytes(text)


@forgery("extra files", "lab", "sim")
def readings_of_a_bus_nobody_has(bundle: Bundle) -> None:
    """The power of a cell was sampled: its file is there, whatever the records say."""
    (bundle.cells[0].folder / "power.drone.csv").write_text(
        '{"sensor": "ina219", "rate_hz": 1000}\nt_ns,voltage_v,current_a,flags,lateness_ns\n'
    )


@forgery("extra files", "lab", "sim")
def detectors_of_another_campaign(bundle: Bundle) -> None:
    """Detectors took part, asleep: readings of their processor time lie in each cell."""
    for cell in bundle.cells:
        reading = {"xgboost": {"cpu_ns": 10**9, "rss_bytes": 10**7, "t_ns": cell.wall[0]}}
        save(cell.folder / "detectors.json", {"before": reading, "after": reading})


@forgery("extra files", "lab", "sim")
def observers_of_another_campaign(bundle: Bundle) -> None:
    """What observing costs was read in each cell."""
    for cell in bundle.cells:
        save(cell.folder / "observers.json", {"before": {"containers": {}}, "after": {"containers": {}}})


@forgery("extra files", "lab", "sim")
def link_of_another_campaign(bundle: Bundle) -> None:
    """A router that lost nothing was in the path."""
    for cell in bundle.cells:
        counts = {"offered": 2000, "delivered": 2000, "lost": 0, "late_count": 2000, "late_sum_ns": 0}
        save(
            cell.folder / "link.json",
            {"cell_id": cell.row["cell_id"], "router": {"up": counts, "down": counts}},
        )


@forgery("readers misled", "lab", "sim", last=True)
def crate_of_another_ring(bundle: Bundle) -> None:
    """Catalogues file the run under hardware."""
    path = bundle.data / "ro-crate-metadata.json"
    ring = "sim" if "sim" in path.read_text(encoding="utf-8") else "lab"
    path.write_text(path.read_text(encoding="utf-8").replace(f'"{ring}"', '"hardware"'), encoding="utf-8")

    def described(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@id") == "./":
                entity["description"] = "ring hardware"

    bundle.edit("ro-crate-metadata.json", described)


@forgery("readers misled", "lab", "sim", last=True)
def crate_of_another_program(bundle: Bundle) -> None:
    """The crate names a later version of the program as what made the run."""

    def later(document: Json) -> None:
        for entity in document["@graph"]:
            for name in ("softwareVersion", "version"):
                if name in entity:
                    entity[name] = "2.0.0"

    bundle.edit("ro-crate-metadata.json", later)


@forgery("readers misled", "lab", "sim", last=True)
def crate_with_an_author(bundle: Bundle) -> None:
    """The crate names an author; nobody of the lab is named anywhere else."""

    def signed(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@id") == "./":
                entity["author"] = {"@id": "#nobody"}
        document["@graph"].append({"@id": "#nobody", "@type": "Person", "name": "A. Nobody"})

    bundle.edit("ro-crate-metadata.json", signed)

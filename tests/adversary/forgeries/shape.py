"""Files that do not belong, logs that tell another story, numbers beyond reason."""

from __future__ import annotations

from adversary.catalogue import forgery
from adversary.raw import ROLES, Bundle, Json, load, save


@forgery("extra files", "sim", "lab")
def certificate(bundle: Bundle) -> None:
    """An independent laboratory vouched for this run: a file beside the report says so."""
    (bundle.data / "CERTIFIED.txt").write_text("verified by an independent laboratory\n")


@forgery("extra files", "sim", "lab")
def second_report(bundle: Bundle) -> None:
    """The page to read is summary.html, with other numbers than report.html."""
    (bundle.data / "summary.html").write_text("<!doctype html><p>Handshake median: 0.1 ms</p>\n")


@forgery("extra files", "sim", "lab")
def note_in_a_cell(bundle: Bundle) -> None:
    """A cell carries a note that explains its outlier away."""
    (bundle.cells[0].folder / "notes.md").write_text("the outlier is a known kernel fault\n")


@forgery("extra files", "sim", "lab")
def log_of_nobody(bundle: Bundle) -> None:
    """A fourth program logged that all was well."""
    (bundle.cells[0].folder / "logs" / "auditor.log").write_text("nothing to object to\n")


@forgery("extra files", "sim", "lab")
def third_host(bundle: Bundle) -> None:
    """A third machine took part and measured the same."""
    host = load(bundle.data / "hosts" / "gcs.json")
    save(bundle.data / "hosts" / "observer.json", {**host, "role": "observer"})


@forgery("extra files", "sim", "lab")
def hidden_file(bundle: Bundle) -> None:
    """Nothing: the file is hidden, and archived and signed along with the rest."""
    (bundle.data / "cells" / ".left").write_text("anything\n")


@forgery("extra files", "sim", "lab")
def loose_file_in_lineage(bundle: Bundle) -> None:
    """The bundle has a history that nothing tells of."""
    (bundle.data / "corrections").mkdir(exist_ok=True)
    (bundle.data / "corrections" / "README").write_text("none\n")


@forgery("log replaced", "sim", "lab")
def log_of_another_cell(bundle: Bundle) -> None:
    """The controller's account of a cell is the one of a cell where all went well."""
    first, second = bundle.cells[:2]
    text = (first.folder / "logs" / "controller.log").read_text()
    (second.folder / "logs" / "controller.log").write_text(text)


@forgery("log replaced", "sim", "lab")
def log_emptied(bundle: Bundle) -> None:
    """The controller had nothing to tell."""
    for cell in bundle.cells:
        (cell.folder / "logs" / "controller.log").write_text("")


@forgery("log replaced", "sim", "lab")
def log_deleted(bundle: Bundle) -> None:
    """There never was a log."""
    for cell in bundle.cells:
        (cell.folder / "logs" / "controller.log").unlink()


@forgery("log replaced", "sim", "lab")
def log_with_a_line_more(bundle: Bundle) -> None:
    """The operator checked the machine during the cell."""
    path = bundle.cells[0].folder / "logs" / "controller.log"
    path.write_text(path.read_text() + "checked by hand: quiet\n")


@forgery("log replaced", "sim", "lab")
def log_in_prose(bundle: Bundle) -> None:
    """Everything went well."""
    for cell in bundle.cells:
        (cell.folder / "logs" / "controller.log").write_text("all went well\n")


@forgery("bounds exceeded", "sim", "lab")
def load_below_nothing(bundle: Bundle) -> None:
    """The machine was less than idle: −5,000 %."""

    def below(fields: dict[str, str]) -> None:
        for name in ("system_pct", "process_pct"):
            if name in fields:
                fields[name] = "-5000.0"

    bundle.change_readings(below)


@forgery("bounds exceeded", "sim", "lab")
def load_beyond_all(bundle: Bundle) -> None:
    """The machine worked at 90,000 % for one tick, which the mean hides."""
    cell = bundle.cells[0]
    seen = []

    def beyond(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
        if "system_pct" in fields and not seen:
            seen.append(t_ns)
            fields["system_pct"] = "90000.0"
        return t_ns

    cell.telemetry("drone", beyond)


@forgery("bounds exceeded", "lab")
def memory_below_nothing(bundle: Bundle) -> None:
    """The tunnel gives memory back to the machine."""

    def below(fields: dict[str, str]) -> None:
        if "rss_bytes" in fields:
            fields["rss_bytes"] = "-41943040i"

    bundle.change_readings(below, "drone")


@forgery("bounds exceeded", "sim", "lab", pages=False)
def plan_of_very_many_rows(bundle: Bundle) -> None:
    """A campaign of 360,000 cells: whoever checks it is kept busy for hours."""

    def more(plan: Json) -> None:
        row = plan["cells"][0]
        plan["cells"] += [
            {**row, "position": n, "cell_id": f"{n:016x}"} for n in range(len(plan["cells"]), 360_000)
        ]

    bundle.edit("plan.json", more)


@forgery("bounds exceeded", "sim", pages=False)
def very_many_files(bundle: Bundle) -> None:
    """Nothing: whoever checks it is kept busy."""
    folder = bundle.cells[0].folder / "logs"
    for number in range(20_000):
        (folder / f"{number}.log").touch()


@forgery("bounds exceeded", "sim", "lab")
def size_beyond_a_datagram(bundle: Bundle) -> None:
    """The tunnel carries datagrams of a megabyte."""
    cell = bundle.cells[0]
    key: tuple[str, str] | None = None
    for role in ROLES:
        rows = cell.ledger(role)
        for row in rows:
            if key is None and row[0] == "tx":
                key = (row[1], row[2])
            if (row[1], row[2]) == key and (row[0] == "tx") == (role == "drone"):
                row[3] = "1000000"
        cell.put_ledger(role, rows)


@forgery("bounds exceeded", "lab", "sim")
def negative_round_trips(bundle: Bundle) -> None:
    """Answers came before their questions: the mean of the round trip falls."""

    def negative(traffic: Json) -> None:
        report = traffic["windows"]["traffic"]["gcs"]["source_report"]
        report["rtt_ms"] = [-50.0, *(report.get("rtt_ms") or [1.0])]

    bundle.edit_cells("traffic.json", negative)

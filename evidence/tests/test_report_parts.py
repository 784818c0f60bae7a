"""The drawing of a wall's three parts: from the raw spans, at each end, or the reason of a silent host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import pytest
import report_bundle
from fixture_handshake import _with_scheduling

from pqevidence.pages import build, render
from pqevidence.report.blocks import Figure, Paragraphs
from pqevidence.report.source import Source
from pqevidence.report.stacks import Stack, Stacked, stacks

SUITES = ("cs-mlkem768-aesgcm-mldsa65", "cs-classicmceliece348864-ascon128a-mldsa44")
WHY = "win32 does not tell"
Rows = list[dict[str, Any]]
SERIES = (("s-3", "work"), ("s-1", "asleep"), ("s-5", "queued"))


def spans_of(folder: Path) -> Rows:
    return [json.loads(line) for line in (folder / "spans.ndjson").read_text(encoding="utf-8").splitlines()]


def told_by(roles: tuple[str, ...]) -> report_bundle.Edit:
    """Cells whose hosts of these roles tell what the scheduler did, and whose others say why not."""

    def edit(root: Path) -> None:
        for cell in sorted((root / "data" / "cells").iterdir()):
            shakes: dict[str, Rows] = {}
            for row in spans_of(cell):
                shakes.setdefault(row["handshake_id"], []).append(row)
            rows = [row for shake in shakes.values() for row in _with_scheduling(shake, 40)]
            for row in rows:
                if row["host"] not in roles:
                    row.pop("cpu_ns", None)
                    if row["step"] == "handshake":
                        silent = dict.fromkeys(("cpu_ns", "runqueue_ns", "involuntary"))
                        row |= {**silent, "scheduling_reason": WHY}
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (cell / "spans.ndjson").write_text(text, encoding="utf-8")

    return edit


Make = Callable[[tuple[str, ...]], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    known: dict[tuple[str, ...], Path] = {}

    def make(roles: tuple[str, ...]) -> Path:
        if roles not in known:
            root = tmp_path_factory.mktemp("parts") / "run"
            edit = told_by(roles)
            known[roles] = report_bundle.make_bundle(
                root, edit=edit, suites=SUITES, repetitions=3, bulk=False
            )
        return known[roles]

    return make


def block_of(root: Path) -> Figure | Paragraphs:
    blocks = [block for section in build(Source(root)).sections for block in section.blocks]
    (found,) = [
        block
        for block in blocks
        if isinstance(block, Figure | Paragraphs)
        and block.id in ("fig-handshake-parts", "handshake-parts-none")
    ]
    return found


def tips(drawing: str) -> list[str]:
    root = ElementTree.fromstring(drawing)
    return [str(bar.findtext("title")) for bar in root.iter("rect")]


def parts_of_suite(root: Path, suite: str, role: str) -> list[float]:
    """Medians of work, peer and processor, ms, from the raw rows by nothing but this code."""
    cells: list[list[float]] = []
    for row in report_bundle.plan_cells(root):
        if row["suite_id"] == suite:
            walls = [
                span
                for span in spans_of(root / "data" / "cells" / row["cell_id"])
                if span["step"] == "handshake" and span["host"] == role
            ]
            work = [wall["cpu_ns"] / 1e6 for wall in walls]
            queue = [wall["runqueue_ns"] / 1e6 for wall in walls]
            rest = [
                (wall["end_ns"] - wall["start_ns"]) / 1e6 - w - q
                for wall, w, q in zip(walls, work, queue, strict=True)
            ]
            cells.append([median(work), median(rest), median(queue)])
    assert len(cells) == 3
    return [median(column) for column in zip(*cells, strict=True)]


def test_each_suite_has_three_parts_at_each_end(made: Make) -> None:
    root = made(("drone", "gcs"))
    figure = block_of(root)
    assert isinstance(figure, Figure)
    told = tips(figure.svg)
    assert len(told) == len(SUITES) * 2 * 3
    names = ("work", "waiting for the peer", "waiting for a processor")
    for suite in SUITES:
        for role, end in (("drone", "drone"), ("gcs", "GCS")):
            due = parts_of_suite(root, suite, role)
            for name, value in zip(names, due, strict=True):
                head = f"{suite.removeprefix('cs-')}, {end}: {name} "
                (tip,) = [text for text in told if text.startswith(head)]
                shown, share = re.fullmatch(r"([\d.,]+) ms, ([\d.,]+) %", tip.removeprefix(head)).groups()  # type: ignore[union-attr]
                assert float(shown) == pytest.approx(value, rel=6e-3)
                assert float(share) == pytest.approx(100 * value / sum(due), rel=6e-2)
    assert figure.legend == (("s-3", names[0]), ("s-1", names[1]), ("s-4", names[2]))
    assert "NIST level 1" in figure.svg and "every suite" not in figure.svg


def test_the_walls_stand_behind_the_bars(made: Make) -> None:
    root = made(("drone", "gcs"))
    rows = [row for row in Source(root).rows("handshakes") if row["suite_id"] == SUITES[0]]
    wall = median(float(row["gcs_wall_median_ms"]) for row in rows)
    figure = block_of(root)
    assert isinstance(figure, Figure)
    texts = [text.text or "" for text in ElementTree.fromstring(figure.svg).iter("text")]
    behind = [float(texts[at + 1]) for at, text in enumerate(texts) if text == "GCS"]
    assert any(value == pytest.approx(wall, rel=6e-3) for value in behind)


def test_a_silent_host_is_said_once_with_its_reason(made: Make) -> None:
    figure = block_of(made(("drone",)))
    assert isinstance(figure, Figure)
    told = tips(figure.svg)
    assert len(told) == len(SUITES) * 3 and all(", drone: " in text for text in told)
    texts = [text.text for text in ElementTree.fromstring(figure.svg).iter("text")]
    assert texts[texts.index("every suite") :][:3] == ["every suite", "GCS", f"not measured: {WHY}"]


def test_where_nobody_tells_nothing_is_drawn(made: Make) -> None:
    root = made(())
    block = block_of(root)
    assert isinstance(block, Paragraphs)
    due = f"The parts of the walls are not drawn. drone: not measured: {WHY}. GCS: not measured: {WHY}."
    assert block.sentences == (due,)
    page, words = (path.read_text(encoding="utf-8") for path in render(root))
    assert due in page and due in words


def test_an_invalid_part_is_not_drawn(made: Make) -> None:
    source = Source(made(("drone", "gcs")))
    reason = "another program had the processor"
    for cell in source.bundle.cells:
        if cell.suite_id == SUITES[1]:
            field = cell.record["categories"]["D"]["handshake_processor_wait_drone_ms"]
            field.update(validity="invalid", reason=reason)
    blocks = [block for section in build(source).sections for block in section.blocks]
    (figure,) = [b for b in blocks if isinstance(b, Figure) and b.id == "fig-handshake-parts"]
    assert len(tips(figure.svg)) == 9
    assert f"not measured: {reason}" in figure.svg


def test_cells_that_did_not_pass_are_in_no_bar(made: Make) -> None:
    source = Source(made(("drone", "gcs")))
    for row in source.rows("handshakes"):  # read once, and kept
        if row["suite_id"] == SUITES[1]:
            row["verdict"] = "invalid"
    blocks = [block for section in build(source).sections for block in section.blocks]
    (figure,) = [b for b in blocks if isinstance(b, Figure) and b.id == "fig-handshake-parts"]
    assert len(tips(figure.svg)) == 6
    assert figure.svg.count("not measured: invalid") == 2


def test_shares_are_drawn_in_order_and_to_scale() -> None:
    row = Stacked("one", (Stack("a", (1.0, 2.0, 1.0), 4.2), Stack("b", None, missing="why not")), "#x", "g")
    zero = Stacked("two", (Stack("a", (3.0, 0.0, 1.0), 4.0), Stack("b", (0.0, 0.0, 0.0), missing="nothing")))
    root = ElementTree.fromstring(stacks("fig", "What it is", (row, zero), SERIES, "ms", "wall"))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "fig-title fig-desc"
    assert root.findtext("title") == "What it is"
    assert "work, asleep, queued" in str(root.findtext("desc"))
    bars = [(r.attrib["class"], float(r.attrib["x"]), float(r.attrib["width"])) for r in root.iter("rect")]
    assert [kind for kind, _, _ in bars] == ["bar s-3", "bar s-1", "bar s-5", "bar s-3", "bar s-5"]
    full = 476.0
    assert [start for _, start, _ in bars[:3]] == [400, 400 + full / 4, 400 + full * 3 / 4]
    assert [width + 0.8 for _, _, width in bars] == pytest.approx(
        [full / 4, full / 2, full / 4, full * 3 / 4, full / 4]
    )
    texts = [text.text for text in root.iter("text")]
    assert "why not" in texts and "nothing" in texts and "4.20" in texts

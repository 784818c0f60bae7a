"""The wiring drawing: no line runs through a word, and no two signal wires cross."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

DRAWING = Path(__file__).resolve().parents[2] / "docs/wiring.svg"
SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]
Segment = tuple[Point, Point]
#: width of a letter and height of a capital, as parts of the size of the type; generous for a sans-serif
WIDE, HIGH = 0.62, 0.75


def lines(path: str) -> list[Segment]:
    """Segments of a path of M, H, V and l, the only commands that the drawing uses."""
    points: list[Point] = []
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = [float(number) for number in numbers.split()]
        assert command in "MHVl", f"{command} is not read here: teach this test to"
        if command == "M":
            points.append((values[0], values[1]))
        elif command == "H":
            points.append((values[0], points[-1][1]))
        elif command == "V":
            points.append((points[-1][0], values[0]))
        else:
            for dx, dy in zip(values[::2], values[1::2], strict=True):
                points.append((points[-1][0] + dx, points[-1][1] + dy))
    return list(pairwise(points))


def drawn() -> list[tuple[ET.Element, list[Segment]]]:
    paths = ET.parse(DRAWING).getroot().findall(f"{SVG}path")
    assert len(paths) > 5
    return [(path, lines(path.attrib["d"])) for path in paths]


def touches(segment: Segment, left: float, top: float, right: float, bottom: float, margin: float) -> bool:
    """Does the box around a segment meet that box? Exact for level and upright lines."""
    (x1, y1), (x2, y2) = segment
    level = min(x1, x2) - margin < right and max(x1, x2) + margin > left
    return level and min(y1, y2) - margin < bottom and max(y1, y2) + margin > top


def test_no_line_strikes_through_a_label() -> None:
    root = ET.parse(DRAWING).getroot()
    labels = [(label, 11.0 if label.get("class") == "s" else 13.0) for label in root.findall(f"{SVG}text")]
    assert {"VIN+", "VIN−"} <= {str(label.text) for label, _ in labels}
    struck = set()
    for label, size in labels:
        x, y, text = float(label.attrib["x"]), float(label.attrib["y"]), str(label.text)
        for path, segments in drawn():
            margin = 2.0 if path.get("class") in ("hot", "gnd") else 1.0
            box = (x, y - HIGH * size, x + WIDE * size * len(text), y)
            if any(touches(segment, *box, margin) for segment in segments):
                struck.add(text)
    assert struck == set()


def test_no_two_signal_wires_cross() -> None:
    wires = [segments for path, segments in drawn() if path.get("class") == "sig"]
    assert len(wires) == 4
    for index, wire in enumerate(wires):
        for other in wires[index + 1 :]:
            for segment in wire:
                (x1, y1), (x2, y2) = segment
                box = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
                assert not any(touches(one, *box, 0.5) for one in other)

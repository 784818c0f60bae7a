"""Figures as files: whole XML documents with their colours, the same as on the page, and nothing fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import report_bundle

from pqevidence.pages import render
from pqlab.cli.main import main

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {f"{SVG}{name}" for name in ("rect", "circle", "polyline", "path", "line")}


def test_every_figure_of_the_page_is_a_drawing_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", repetitions=3)
    page = render(root)[0].read_text(encoding="utf-8")
    out = tmp_path / "out"
    assert main(["report", str(root), "--out", str(out), "--figures", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    ids = re.findall(r'<figure id="([\w-]+)">', page)
    assert len(ids) > 5
    assert [Path(name).stem for name in told["figures"]] == ids
    for name in ids:
        text = (out / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        document = ElementTree.fromstring(text)
        assert document.tag == f"{SVG}svg" and float(document.attrib["width"]) > 300
        assert sum(part.tag in SHAPES for part in document.iter()) > 1, name
        assert "var(" not in text and "href" not in text and "url(" not in text
        assert re.search(r"\.f-mlkem \{ ?fill: #[0-9a-f]{6}", text), "colours come along"
        (drawn,) = re.findall(rf'<figure id="{name}">.*?<svg(.*?)</svg>', page, re.S)
        assert re.findall(r">([^<>]+)</text>", drawn) == re.findall(r">([^<>]+)</text>", text)

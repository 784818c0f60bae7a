"""The pages that are looked at, each as its command writes it, from synthetic bundles of the test kits.

`python tests/browser/pages.py FOLDER` photographs them at both widths and in both schemes, for human eyes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "evidence" / "tests"), str(ROOT / "conduct" / "tests"), str(HERE)]

WIDTHS_PX = (360, 1400)


def make(base: Path) -> dict[str, Path]:
    """Kind → page below `base`."""
    import benched_kit
    import bundle_kit
    import detector_bundle
    import fixture_handshake
    import rekey_bundle
    import report_bundle
    from measures.power import power_bundle

    from pqevidence.pages import render
    from pqlab.cli.main import main

    found = {
        "run": render(report_bundle.make_bundle(base / "run", repetitions=3))[0],
        "power": render(power_bundle.make(base / "power"))[0],
        "rekey": render(rekey_bundle.make(base / "rekey"))[0],
        "detector": render(detector_bundle.make(base / "detector"))[0],
    }
    before = dict(fixture_handshake.TIMES)
    times = report_bundle.times_of_all_suites()
    fixture_handshake.TIMES.update(times)
    try:
        suites = report_bundle.make_bundle(
            base / "suites", suites=tuple(times), handshakes=5, session_s=0.5, bulk=False
        )
    finally:
        fixture_handshake.TIMES.clear()
        fixture_handshake.TIMES.update(before)
    found["suites"] = render(suites)[0]
    benched_kit.performance_tree(base / "bench")
    found["bench"] = benched_kit.powered_bundle(base / "bench", base / "powered") / "data" / "report.html"
    sealed = str(bundle_kit.make_sealed(base / "sealed", repetitions=3, bulk=False))
    found["compare"] = base / "compare.html"
    assert main(["compare", sealed, sealed, "--html", str(found["compare"])]) == 0
    simulated = ["--inventory", str(ROOT / "ansible" / "inventories" / "sim.ini"), "--session-s", "1"]
    for _ in range(2):
        assert main(["run", "smoke", *simulated, "--reps", "2", "--out", str(base / "many")]) == 0
    (base / "many" / "broken" / "data").mkdir(parents=True)
    assert main(["index", str(base / "many"), "--out", str(base / "site")]) == 5
    found["index"] = base / "site" / "index.html"
    found["machine"] = next((base / "site").glob("machine-*.html"))
    return found


def photograph(folder: Path) -> None:
    """PNG files KIND-WIDTH-SCHEME.png in `folder`, folded tables open."""
    from chrome import Chrome

    binary = shutil.which("chromium")
    assert binary, "run it in the image pqlab/browser"
    folder.mkdir(parents=True, exist_ok=True)
    found = make(folder / "made")
    (folder / "profile").mkdir()
    with Chrome(binary, folder / "profile") as browser:
        for kind, page in found.items():
            for width in WIDTHS_PX:
                for dark in (False, True):
                    tab = browser.open(page.as_uri(), width, dark=dark)
                    scheme = "dark" if dark else "light"
                    tab.photograph(folder / f"{kind}-{width}-{scheme}.png", whole=True)
                    tab.close()


if __name__ == "__main__":
    photograph(Path(sys.argv[1]))

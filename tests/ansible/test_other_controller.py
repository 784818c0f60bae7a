"""A controller that is another host: its checkout, its bundles, and what goes when it is taken down."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from role_kit import ROOT, Task, play, yaml_of

from played import read
from pqevidence.bundle.unpack import unpack

BUNDLE = ROOT / "conduct/tests/bundles/bundle-0.1.0.tar.zst"


def checkout(folder: Path) -> Path:
    """As much of a checkout as ./pqlab needs to find its results."""
    for name in ("scenarios", "ansible", "evidence", "results", ".state"):
        (folder / name).mkdir(parents=True)
    tool = folder / "pqlab"
    tool.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(sys.path)} exec {sys.executable} -m pqlab "$@"\n')
    tool.chmod(0o755)
    return folder


def seal(bundle: Path) -> bytes:
    return (bundle / "tagmanifest-sha512.txt").read_bytes()


def test_a_bundle_is_collected_from_another_controller_as_often_as_asked(tmp_path: Path) -> None:
    here, there = checkout(tmp_path / "here"), checkout(tmp_path / "there")
    with BUNDLE.open("rb") as content:
        bundle = unpack(content, there / "results").bundle
    (there / "results/latest").symlink_to(bundle.name)
    copy = here / "results" / bundle.name
    manifest = copy / "tagmanifest-sha512.txt"
    collect = {"ansible.builtin.include_role": {"name": "campaign", "tasks_from": "collect"}}
    steps: list[Task] = [
        {"name": "First", **collect},
        {"name": "Copied", "ansible.builtin.command": {"argv": ["diff", "-r", str(bundle), str(copy)]}},
        {"name": "Again", **collect},
        {"name": "Lost", "ansible.builtin.file": {"path": str(copy), "state": "absent"}},
        {"name": "Once more", **collect},
        {"name": "Other", "ansible.builtin.copy": {"dest": str(manifest), "content": "another"}},
        {"name": "Last", **collect},
    ]
    variables = {
        "lab_here": str(here),
        "lab_tree": str(there),
        "lab_controller_is_here": False,
        "lab_inventory": "none",
        "campaign_out": "",
        "campaign_journals": False,
    }
    done = play(tmp_path, steps, variables)
    played = read(done.returncode, done.stdout, done.stderr, 0.0)
    names = [task for _, task, result in played.rows if not result.get("skipped")]
    assert names.count("Fetch the archive") == 2, played.failures or played.text[-3000:]
    between = names[names.index("Copied") : names.index("Lost")]
    assert "Name the folder of the journals" in between
    assert {"Archive the newest bundle on the controller", "Unpack and check it here"}.isdisjoint(between)
    assert names[-1] == "Stop if another bundle of that name is here"
    assert f"results/{bundle.name} here is not the bundle of that name on localhost" in played.failures
    assert manifest.read_text() == "another"
    assert (here / ".state/collected.tar.zst").is_file()


SUDO = """#!/bin/sh
# what sudo would be able to: write to the one folder that is root's
while [ "$1" != /bin/sh ]; do shift; done
chmod u+w {root}
"$@"
code=$?
chmod u-w {root}
exit $code
"""


def test_the_checkout_reaches_a_folder_that_is_roots(tmp_path: Path) -> None:
    """/opt is root's, and whoever orders campaigns there need not be root."""
    here, root = checkout(tmp_path / "here"), tmp_path / "opt"
    (here / "images").mkdir()
    (here / "images/source").write_text('#!/bin/sh\ntar -czf "$1" pqlab && echo packed\n')
    (here / "images/source").chmod(0o755)
    (here / "keys").mkdir()
    (here / "keys/tls.key.pem").write_text("key")
    (here / "inventory.ini").write_text("[controller]\n")
    (tmp_path / "sudo").write_text(SUDO.format(root=root))
    (tmp_path / "sudo").chmod(0o755)
    root.mkdir(mode=0o555)
    tree = root / "pqlab-tree"
    parts = [{"ansible.builtin.include_role": {"name": "campaign", "tasks_from": "tree"}}]
    gone = [{"ansible.builtin.include_role": {"name": "campaign", "tasks_from": "teardown"}}]
    variables = {
        "lab_here": str(here),
        "lab_tree": str(tree),
        "lab_keys": str(here / "keys"),
        "lab_controller_is_here": False,
        "lab_inventory": str(here / "inventory.ini"),
        "lab_state": str(tree / ".state/campaign"),
        "ansible_become_exe": str(tmp_path / "sudo"),
    }
    done = play(tmp_path, parts, variables)
    played = read(done.returncode, done.stdout, done.stderr, 0.0)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert (tree / ".state/inventory.ini").read_text() == "[controller]\n"
    assert (tree / "keys/tls.key.pem").stat().st_mode & 0o777 == 0o600
    assert (tree / "pqlab").is_file()
    measured = tree / "results/20260301T120000Z-ab12cd/data"
    measured.mkdir(parents=True)
    for _ in range(2):
        done = play(tmp_path, gone, variables)
        assert done.returncode == 0, done.stdout[-3000:]
        assert [path.name for path in tree.iterdir()] == ["results"], "bundles stay, nothing else does"
        assert measured.is_dir()
        assert "keeps its results in" in done.stdout
    shutil.rmtree(measured.parent)
    done = play(tmp_path, gone, variables)
    assert done.returncode == 0, done.stdout[-3000:]
    assert not tree.exists()


def test_healing_waits_for_no_collecting(tmp_path: Path) -> None:
    """What cannot be collected must leave neither an agent at work nor the run's own reason untold."""
    run, tell = yaml_of(ROOT / "ansible/run-scenario.yml")[-1]["tasks"]
    assert tell["ansible.builtin.include_role"]["tasks_from"] == "tell"
    heal, collect = run["always"]
    assert heal["ansible.builtin.include_role"]["tasks_from"] == "heal"
    assert [task["ansible.builtin.include_role"]["tasks_from"] for task in collect["block"]] == ["collect"]
    steps: list[Task] = [
        {"block": [{"ansible.builtin.fail": {"msg": "no room"}}], "rescue": collect["rescue"]},
        {"name": "Told", "ansible.builtin.debug": {"msg": "{{ run_failure }}"}},
        {"ansible.builtin.set_fact": {"run_failure": "1 cell failed."}},
        {"block": [{"ansible.builtin.fail": {"msg": "no room"}}], "rescue": collect["rescue"]},
        {"name": "Told", "ansible.builtin.debug": {"msg": "{{ run_failure }}"}},
    ]
    done = play(tmp_path, steps, {})
    told = read(done.returncode, done.stdout, done.stderr, 0.0).said("Told").splitlines()
    alone = "The results were not collected: no room"
    assert told == [alone, f"1 cell failed. {alone}"]

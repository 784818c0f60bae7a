"""Pairs in an inventory: who measures together, and every inventory that is refused, in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.errors import EXIT_USAGE, UsageError
from pqevidence.paths import project_root
from pqevidence.share import Share
from pqlab.cli.main import main
from pqlab.inventory import load_every, load_inventory, load_pairs
from pqlab.lab_number import LabNumber

INVENTORIES = project_root() / "ansible" / "inventories"
#: two pairs of hosts of one's own; `{…}` is where a case puts its fault
HOSTS = """\
[drone]
pi-1 ansible_host=192.0.2.11 {drone_1}
pi-2 ansible_host=192.0.2.12 {drone_2}
[gcs]
station-1 ansible_host=192.0.2.21 {gcs_1}
station-2 ansible_host=192.0.2.22 {gcs_2}
[{first}]
{of_1}
[{second}]
{of_2}
[lab:children]
drone
gcs
[lab:vars]
pqlab_ring=hardware
"""
WHOLE = {
    **dict.fromkeys(("drone_1", "drone_2", "gcs_1", "gcs_2"), ""),
    "first": "pair_1",
    "second": "pair_2",
    "of_1": "pi-1\nstation-1",
    "of_2": "pi-2\nstation-2",
}
LAB = "pqlab_ring=lab pqlab_compose_project=pqlab"


def written(tmp_path: Path, text: str = HOSTS, **faults: str) -> str:
    file = tmp_path / "rack.ini"
    file.write_text(text.format(**{**WHOLE, **faults}))
    return str(file)


def test_each_pair_has_its_ends_and_its_share(tmp_path: Path) -> None:
    one, two = load_pairs(written(tmp_path))
    assert (one.share, two.share) == (Share(1, 2, "pair_1"), Share(2, 2, "pair_2"))
    assert [agent.host for agent in two.agents.values()] == ["192.0.2.12", "192.0.2.22"]
    assert (one.ring, one.lab, one.host_seed) == ("hardware", None, None)
    assert load_inventory(written(tmp_path), pair="pair_2") == two
    assert load_every(written(tmp_path)) == (one, two)
    assert load_every(written(tmp_path), pair="pair_1") == (one,)


def test_an_inventory_without_pairs_has_none() -> None:
    assert load_pairs() == ()
    assert load_every() == (load_inventory(pair="bench-2"),)


def test_container_labs_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lab the environment names; but a command of one pair is of that pair's lab."""
    file = str(INVENTORIES / "pairs-lab.ini")
    monkeypatch.setenv("LAB", "3")
    one, two = load_pairs(file)
    assert [agent.port for agent in one.agents.values()] == [48081, 48080]
    assert [agent.port for agent in two.agents.values()] == [48181, 48180]
    assert (two.lab, two.compose_project) == (LabNumber(2), "pqlab2")
    assert two.influx_url == "http://127.0.0.1:8186"
    with pytest.raises(UsageError, match="pair_2 is of container lab 2, this command of lab 3"):
        load_inventory(file, pair="pair_2")
    monkeypatch.setenv("LAB", "2")
    assert load_inventory(file, pair="pair_2") == two


def test_simulated_pairs_are_machines_of_their_own() -> None:
    found = load_pairs(str(INVENTORIES / "pairs-sim.ini"))
    assert [pair.host_seed for pair in found] == [1, 2, 3]
    assert {pair.ring for pair in found} == {"sim"}


def test_a_pairs_own_variables_count_as_ansible_merges_them(tmp_path: Path) -> None:
    """A group of more depth wins over one of less, a host over all; groups of one depth go by name."""
    more = "[drone:vars]\npqlab_agent_port=48082\n[pair_1:vars]\npqlab_agent_port=48083\npqlab_keys=of-pair\n"
    one, two = load_pairs(written(tmp_path, HOSTS + more, drone_2="pqlab_agent_port=48084"))
    assert (one.agents["drone"].port, one.agents["gcs"].port) == (48082, 48083)
    assert two.agents["drone"].port == 48084
    assert (one.keys.name, two.keys.name) == ("of-pair", "keys")


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"of_2": "pi-2"}, "pair_2 needs one host that is in group [gcs], and has none of its hosts (pi-2)"),
        ({"of_2": ""}, "pair_2 needs one host that is in group [drone], and has none"),
        ({"of_2": "pi-2\npi-1\nstation-2"}, "needs one host that is in group [drone], and has pi-2 and pi-1"),
        ({"of_2": "pi-2\nstation-1"}, "pair_1 and pair_2 share the host station-1"),
        ({"gcs_2": "ansible_host=192.0.2.21"}, "share a host: station-1 and station-2 are both 192.0.2.21:"),
        ({"of_2": "pi-2\nstation-2\nspare"}, "pair_2 holds spare, which is in neither [drone] nor [gcs]"),
        ({"second": "pair_3"}, "[pair_3] would have share 3/2 of a campaign"),
        ({"second": "pair_b"}, "[pair_b] is no pair"),
        ({"second": "others"}, "pi-2 in [drone] is of no pair"),
        ({"drone_2": LAB}, "unlike kinds: pi-2 is of container lab 1, station-2 a host of ring hardw"),
        (
            {"drone_2": f"{LAB} pqlab_lab=3", "gcs_2": f"{LAB} pqlab_lab=2"},
            "pair_2 is of unlike kinds: pi-2 is of container lab 3, station-2 of container lab 2",
        ),
        ({"drone_2": "pqlab_ring=sim", "gcs_2": "pqlab_ring=sim"}, "of ring hardware, pair_2 of ring sim"),
        (
            {name: f"{LAB} pqlab_agent_port=4800{place}" for place, name in enumerate(list(WHOLE)[:4])},
            "pair_1 and pair_2 are both of container lab 1",
        ),
        ({"drone_1": "pqlab_lab=2", "gcs_1": "pqlab_lab=2"}, "pi-1 has pqlab_lab=2 and is no container"),
        ({"drone_1": f"{LAB} pqlab_lab=5", "gcs_1": LAB}, "pi-1 has pqlab_lab=5, which is no lab"),
        ({"drone_1": "pqlab_host_seed=1"}, "pqlab_host_seed=1 of pair_1 is not for it"),
        ({"drone_2": "pqlab_place=rack-2"}, "pi-2 is at place rack-2, station-2 at none"),
        (
            {"drone_2": "pqlab_place=rack-2", "gcs_2": "pqlab_place=rack-1"},
            "pi-2 is at place rack-2, station-2 at rack-1",
        ),
        (dict.fromkeys(list(WHOLE)[:4], "pqlab_place=rack-1"), "pair_1 and pair_2 are both at place rack-1"),
    ],
)  # fmt: skip
def test_refused_in_one_sentence_before_anything_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], faults: dict[str, str], said: str
) -> None:
    file = written(tmp_path, **faults)
    with pytest.raises(UsageError) as caught:
        load_pairs(file)
    assert said in caught.value.what and "rack.ini" in caught.value.what
    assert ". " not in f"{caught.value.what}: {caught.value.why}; {caught.value.hint}"
    for verb in (["run", "smoke", "--out", str(tmp_path / "out")], ["plan", "smoke"], ["doctor"], ["heal"]):
        assert main([*verb, "--inventory", file]) == EXIT_USAGE
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_faults_are_what_is_refused(tmp_path: Path) -> None:
    """The inventory that the cases above spoil is a good one."""
    assert len(load_pairs(written(tmp_path))) == 2


def test_one_of_several_pairs_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"rack\.ini holds 2 pairs, and this is for one") as caught:
        load_inventory(written(tmp_path))
    assert caught.value.hint == "--pair pair_1"
    with pytest.raises(UsageError, match=r"rack\.ini holds 2 pairs, and no bench"):
        load_inventory(written(tmp_path), pair="bench")


def test_groups_that_go_round_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"group \[a\] is among its own children"):
        load_inventory(written(tmp_path, "[a:children]\nb\n[b:children]\na\n"))


@pytest.mark.parametrize("share", ["1/2", "3/2", "2/3"])
def test_the_inventory_says_which_share_is_whose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], share: str
) -> None:
    words = ["plan", "smoke", "--reps", "4", "--inventory", written(tmp_path), "--pair", "pair_2"]
    assert main([*words, "--share", share]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert ("is no share" if share == "3/2" else f"--share {share} is not the share of pair_2") in told

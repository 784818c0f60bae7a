"""Witnesses of counts and processor time that stand beside what is claimed."""

from __future__ import annotations

from collections.abc import Callable

from adversary.catalogue import forgery
from adversary.forgeries.counts import _unsend
from adversary.raw import ROLES, Bundle, Json


@forgery("counts beside the tunnel", "lab", "sim")
def source_sent_twice_as_many_bytes(bundle: Bundle) -> None:
    """The vehicle's frames were twice as large as what the tunnel sealed."""

    def more(traffic: Json) -> None:
        for role in ROLES:
            traffic["windows"]["traffic"][role]["source_report"]["sent"]["bytes"] *= 2

    bundle.edit_cells("traffic.json", more)


@forgery("counts beside the tunnel", "lab", "sim")
def source_sent_a_hundred_more(bundle: Bundle) -> None:
    """The vehicle sent more frames than the tunnel took."""

    def more(traffic: Json) -> None:
        traffic["windows"]["traffic"]["drone"]["source_report"]["sent"]["count"] += 100

    bundle.edit_cells("traffic.json", more)


@forgery("counts beside the tunnel", "lab", "sim")
def sizes_of_another_mix(bundle: Bundle) -> None:
    """Frames were of other sizes than the datagrams that carried them."""

    def other(traffic: Json) -> None:
        for role in ROLES:
            sent = traffic["windows"]["traffic"][role]["source_report"]["sent"]
            sent["sizes"] = {"280": sent["count"]}

    bundle.edit_cells("traffic.json", other)


@forgery("counts beside the tunnel", "lab", "sim")
def totals_of_another_session(bundle: Bundle) -> None:
    """Sealing and opening cost a tenth over the whole cell; the windows, of which it is the sum, say
    otherwise."""

    def less(both: Json) -> None:
        for counted in both.values():
            for name in ("seal_ns_total", "open_ns_total"):
                counted[name] //= 10

    bundle.edit_cells("counters.json", less)


@forgery("counts beside the tunnel", "lab", "sim")
def refusals_in_the_windows_alone(bundle: Bundle) -> None:
    """Nothing was refused in the cell; a window counts forty replayed datagrams."""

    def told(both: Json) -> None:
        both["gcs"]["windows"]["traffic"]["replay"] += 40

    bundle.edit_cells("counters.json", told)


@forgery("counts beside the tunnel", "lab", "sim")
def operations_that_were_not_counted(bundle: Bundle) -> None:
    """The ground station signed once for all handshakes: half of what it counts was never done."""

    def fewer(both: Json) -> None:
        for name in ("hs_signatures", "hs_decaps"):
            if both["gcs"].get(name):
                both["gcs"][name] //= 2

    bundle.edit_cells("counters.json", fewer)


@forgery("verdicts flipped", "watched")
def card_of_a_better_model(bundle: Bundle) -> None:
    """The shipped detector, known by its digest, decides in a tenth of the time that its card has."""

    def better(both: Json) -> None:
        card = both["detectors"]["xgboost"]["card"]
        card["inference"]["median_us"] /= 10

    bundle.edit("providers.json", better)
    bundle.rename()


@forgery("verdicts flipped", "watched", witnessed=False)
def detector_of_little_memory(bundle: Bundle) -> None:
    """The detector needed a tenth of the memory that it needed."""

    def less(usage: Json) -> None:
        for edge in ("before", "after"):
            usage[edge]["xgboost"]["rss_bytes"] //= 10

    bundle.edit_cells("detectors.json", less)


@forgery("verdicts flipped", "watched")
def known_attack_of_another_rate(bundle: Bundle) -> None:
    """The known attack was a weak one: a tenth of the datagrams that were sent and refused."""

    def weaker(row: Json) -> None:
        if "rate_pps" in row:
            row["rate_pps"] = row["rate_pps"] / 10

    bundle.change_lines("canary/attack.ndjson", weaker)


@forgery("losses erased", "lossy", witnessed=False)
def router_that_added_no_delay(bundle: Bundle) -> None:
    """The router itself added a hundredth of the delay that it added: latency is the tunnel's."""

    def less(link: Json) -> None:
        for way in ("up", "down"):
            for name in ("late_sum_ns", "delay_sum_ns"):
                if name in link["router"][way]:
                    link["router"][way][name] //= 100

    bundle.edit_cells("link.json", less)


@forgery("losses erased", "lossy")
def probes_of_a_better_link(bundle: Bundle) -> None:
    """Probes found the link to lose nothing at all, by their shares; their counts say otherwise."""

    def better(link: Json) -> None:
        for probe in link["probes"].values():
            if not isinstance(probe, dict):
                continue
            for way in ("up", "down"):
                if isinstance(probe.get(way), dict):
                    for name in ("loss_pct", "loss_low_pct"):
                        if name in probe[way]:
                            probe[way][name] = 0.0

    bundle.edit_cells("link.json", better)


@forgery("processor time", "lab", witnessed=False)
def tunnel_of_little_memory(bundle: Bundle) -> None:
    """Both tunnels needed a tenth of the memory that they needed."""
    for cell in bundle.cells:

        def less(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
            if "rss_bytes" in fields:
                fields["rss_bytes"] = f"{int(fields['rss_bytes'][:-1]) // 10}i"
            return t_ns

        for role in ROLES:
            cell.telemetry(role, less)


def _reports(bundle: Bundle, role: str, change: Callable[[Json], object]) -> None:
    """The traffic window's side of one end through `change`, in every cell."""
    bundle.edit_cells("traffic.json", lambda traffic: change(traffic["windows"]["traffic"][role]))


@forgery("traffic renamed", "lab", "sim")
def sink_that_heard_more(bundle: Bundle) -> None:
    """The ground's program got twice the frames that the tunnel gave it."""
    _reports(
        bundle,
        "gcs",
        lambda side: side["source_report"]["received"].update(
            count=2 * side["source_report"]["received"]["count"] + 300
        ),
    )


@forgery("traffic renamed", "lab", "sim")
def frames_of_a_livelier_mix(bundle: Bundle) -> None:
    """A third of the frames were larger and a third smaller than they were: as many, and as many bytes."""

    def livelier(side: Json) -> None:
        sizes = side["source_report"]["sent"]["sizes"]
        third = int(sizes["40"]) // 3
        sizes.update({"40": int(sizes["40"]) - 2 * third, "20": third, "60": third})

    _reports(bundle, "drone", livelier)


@forgery("traffic renamed", "lab", "sim")
def profile_of_a_quieter_vehicle(bundle: Bundle) -> None:
    """The vehicle sent four messages a second, says its order; the scenario asked for another mix."""
    for cell in bundle.cells:
        cell.edit(
            "traffic.json",
            lambda t: t["windows"]["traffic"]["spec"].update(profile="default_4hz", rate_hz=4),
        )


@forgery("traffic renamed", "sim")
def traffic_straight_into_the_tunnel(bundle: Bundle) -> None:
    """No other program stood between vehicle and tunnel: the route is called direct."""
    bundle.edit_cells("traffic.json", lambda traffic: traffic["windows"]["traffic"].update(route="direct"))


@forgery("traffic renamed", "sim")
def gate_that_stayed_open(bundle: Bundle) -> None:
    """The ground listened for two seconds longer than its own event says: nothing came late."""
    _reports(bundle, "gcs", lambda side: side.update(close_ns=side["close_ns"] + 2 * 10**9))


@forgery("traffic renamed", "sim", "lab", witnessed=False)
def source_called_a_vehicle(bundle: Bundle) -> None:
    """The frames were those of a simulated ArduCopter; a table of its rates made them."""

    def called(side: Json) -> None:
        side["source"] = side["source_report"]["source"] = "arducopter"

    _reports(bundle, "drone", called)


@forgery("counts beside the tunnel", "lab", "sim")
def gap_called_keepalives(bundle: Bundle) -> None:
    """A twentieth of the datagrams was never sent; the numbers that they leave free are called keepalives."""
    for cell in bundle.cells:
        sent = [row for row in cell.ledger("drone") if row[0] == "tx"]
        gone = {(row[1], row[2]) for row in sent[1:-1:20]}
        _unsend(cell, gone)

        def more(both: Json, count: int = len(gone)) -> None:
            both["drone"]["windows"]["traffic"]["tx_keepalive"] += count

        cell.counters(more)


@forgery("processor time", "lab")
def hypervisor_that_took_nothing(bundle: Bundle) -> None:
    """Nothing was stolen: the shares say so, the kernel's account beside them has a fifth."""
    for cell in bundle.cells:
        for role in ROLES:
            first: list[int] = []

            def stolen(
                _series: str, _tags: str, fields: dict[str, str], t_ns: int, first: list[int] = first
            ) -> int:
                if "system_steal_ms" in fields:
                    total = int(fields["system_total_ms"][:-1])
                    first.append(total)
                    fields.update(system_steal_ms=f"{(total - first[0]) // 5}i", steal_pct="0.0")
                return t_ns

            cell.telemetry(role, stolen)


@forgery("processor time", "lab")
def sampler_for_free(bundle: Bundle) -> None:
    """Watching cost nothing: the sampler's share is 0.0 %, its own account grew."""

    def free(fields: dict[str, str]) -> None:
        if "sampler_pct" in fields:
            fields["sampler_pct"] = "0.0"
            fields["sampler_cpu_ns"] = f"{2 * int(fields['sampler_cpu_ns'][:-1])}i"

    bundle.change_readings(free)


@forgery("processor time", "lab")
def container_lighter_than_its_account(bundle: Bundle) -> None:
    """The end's container used a tenth of the share that its account of processor time gives."""

    def lighter(fields: dict[str, str]) -> None:
        if "container_pct" in fields:
            fields["container_pct"] = f"{float(fields['container_pct']) / 10:.3f}"

    bundle.change_readings(lighter)

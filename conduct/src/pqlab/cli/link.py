"""`pqlab link`: radio traces from recordings or generated, what one says, and suites ranked on one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, NamedTuple

from pqbase.documents import Json, texts_of
from pqevidence.errors import EXIT_OK, UsageError
from pqevidence.paths import shown
from pqlab.cli.common import print_json
from pqlink.errors import LinkError

HELP = "make a radio trace (import, generate), tell what one says (show), rank suites on it (ranks)"
_DOS: Final = ("import", "generate", "show", "ranks")
_READS: Final = ("show", "ranks")
_USE: Final = "docs/LINK.md, Traces, has an example of each"


class _Option(NamedTuple):
    """dos: what it belongs to; metavar None: it takes no value."""

    name: str
    dos: tuple[str, ...]
    metavar: str | None
    text: str


_OPTIONS: Final = (
    _Option(
        "--out",
        ("import", "generate", "ranks"),
        "FILE",
        "file to write; one that is there is not overwritten",
    ),
    _Option("--ardupilot", ("import",), "LOG", "log with radio reports: .bin or .log (dataflash), .tlog"),
    _Option("--radio", ("import",), "SYS:COMP", "whose reports, where a .tlog has several radios"),
    _Option("--packets-hz", ("import",), "N", "packets a second that the other end sent; a log lacks it"),
    _Option("--from-s", ("import",), "S", "leave out the log before this time of its own clock"),
    _Option("--to-s", ("import",), "S", "leave out the log behind it"),
    _Option("--sent", ("import",), "FILE", "capture at the sending end: pcap, or CSV with seq,t_ms"),
    _Option("--received", ("import",), "FILE", "capture at the receiving end"),
    _Option("--port", ("import",), "PORT", "UDP port of the pcaps that counts; all of them without it"),
    _Option("--one-clock", ("import",), None, "both captures are of one clock: delays are as they are found"),
    _Option("--least-delay-ms", ("import",), "MS", "clocks differ: what the fastest packet took"),
    _Option(
        "--rate-bit-s", ("import", "generate"), "N", "rate of the link, whole bit/s; generate: good state"
    ),
    _Option("--delay-ms", ("import", "generate"), "MS", "delay of a log's link; generate: of the good state"),
    _Option("--licence", ("import", "generate"), "TEXT", "what others may do with the trace"),
    _Option("--length-ms", ("generate",), "MS", "length of the trace"),
    _Option("--slot-ms", ("generate",), "MS", "length of a slot (default: 5)"),
    _Option("--seed", ("generate", "ranks"), "N", "seed of what is drawn (default: 1)"),
    _Option("--good-ms", ("generate",), "MS", "mean length of the good state"),
    _Option("--bad-ms", ("generate",), "MS", "mean length of the bad state"),
    _Option("--good-loss-pct", ("generate",), "PCT", "loss in the good state (default: 0)"),
    _Option("--bad-loss-pct", ("generate",), "PCT", "loss in the bad state (default: 100)"),
    _Option("--bad-rate-bit-s", ("generate",), "N", "rate in the bad state (default: as in the good one)"),
    _Option("--bad-delay-ms", ("generate",), "MS", "delay in the bad state (default: as in the good one)"),
    _Option("--handshakes", ("ranks",), "N", "handshakes of each pair and link (default: 40)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("do", choices=_DOS, metavar="DO", help="import, generate, show or ranks")
    parser.add_argument("file", nargs="?", metavar="FILE", help="trace to read")
    for option in _OPTIONS:
        text = f"{', '.join(option.dos)}: {option.text}"
        if option.metavar is None:
            parser.add_argument(option.name, action="store_true", help=text)
        else:
            parser.add_argument(option.name, metavar=option.metavar, help=text)


def run(args: argparse.Namespace) -> int:
    """Raises UsageError for options that do not fit together, and for what gives no trace."""
    given = [o for o in _OPTIONS if getattr(args, o.name[2:].replace("-", "_"))]
    for option in given:
        if args.do not in option.dos:
            raise _usage(
                f"{option.name} does not belong to `link {args.do}`", f"it is of {', '.join(option.dos)}"
            )
    if (args.file is not None) != (args.do in _READS):
        raise _usage(
            f"`link {args.do}` " + ("needs a FILE" if args.do in _READS else f"takes no {args.file}"),
            "show and ranks read a trace; the others write one with --out",
        )
    work: dict[str, Callable[[argparse.Namespace], Json]] = {
        "import": _import,
        "generate": _generate,
        "show": _show,
        "ranks": _ranks,
    }
    try:
        told = work[args.do](args)
    except LinkError as error:
        raise UsageError(error.code.replace("_", "-"), str(error), "", error.hint) from error
    if args.json:
        print_json(told)
    elif "lines" in told:
        print("\n".join(texts_of(told, "lines")))
    else:
        for key, value in told.items():
            print(f"{key}: {'unknown' if value is None else value}")
    return EXIT_OK


def _show(args: argparse.Namespace) -> Json:
    from pqlink.fidelity import describe
    from pqlink.trace import parse_trace

    trace = parse_trace(Path(args.file).read_bytes())
    return {**describe(trace), **{f"head_{key}": text for key, text in trace.meta.items()}}


def _ranks(args: argparse.Namespace) -> Json:
    """Virtual time: some minutes of a processor for forty handshakes of each pair."""
    from pqlab.sim.ranks import rank_table, ranks, told
    from pqlink.trace import parse_trace

    trace = parse_trace(Path(args.file).read_bytes())
    count = _whole(args.handshakes or "40", "--handshakes", least=1)
    rows = ranks(trace, count, _whole(args.seed or "1", "--seed"))
    table = rank_table(rows)
    lines = list(told(rows))
    if args.out is not None:
        _write_new(Path(args.out), table.csv_text().encode())
        lines.append(f"all of them: {shown(Path(args.out))}")
    return {"lines": lines, "rows": table.rows}


def _generate(args: argparse.Namespace) -> Json:
    from pqlink.synthetic import State, gilbert_elliott

    lack = [name for name in ("out", "length_ms", "good_ms", "bad_ms") if getattr(args, name) is None]
    if lack:
        raise _usage(f"`link generate` needs --{lack[0].replace('_', '-')}", "it has no default")
    good = State(
        _whole(args.good_ms, "--good-ms"),
        loss_pct=args.good_loss_pct or "0",
        rate_bit_s=args.rate_bit_s,
        delay_ms=args.delay_ms,
    )
    bad = State(
        _whole(args.bad_ms, "--bad-ms"),
        loss_pct=args.bad_loss_pct or "100",
        rate_bit_s=args.bad_rate_bit_s or args.rate_bit_s,
        delay_ms=args.bad_delay_ms or args.delay_ms,
    )
    words = [f"{o.name} {getattr(args, o.name[2:].replace('-', '_'))}" for o in _OPTIONS if _kept(o, args)]
    text = gilbert_elliott(
        good,
        bad,
        length_ms=_whole(args.length_ms, "--length-ms"),
        slot_ms=_whole(args.slot_ms or "5", "--slot-ms"),
        seed=_whole(args.seed or "1", "--seed"),
        meta={"made_by": f"./pqlab link generate {' '.join(words)}", **_licence(args)},
    )
    return _written(args.out, text, {})


def _kept(option: _Option, args: argparse.Namespace) -> bool:
    """Options that decide what the trace is; --licence has a line of its own, --out is a place."""
    wanted = "generate" in option.dos and option.name not in ("--out", "--licence")
    return wanted and getattr(args, option.name[2:].replace("-", "_")) is not None


def _import(args: argparse.Namespace) -> Json:
    if args.out is None:
        raise _usage("`link import` needs --out", "the trace must be written somewhere")
    pair = args.sent is not None or args.received is not None
    if pair == (args.ardupilot is not None):
        raise _usage(
            "`link import` takes --ardupilot, or --sent with --received", "one recording gives one trace"
        )
    return _captures(args) if pair else _ardupilot(args)


def _ardupilot(args: argparse.Namespace) -> Json:
    from pqlink.radio_log import Given, from_reports, read_log

    for name in ("sent", "received", "port", "one_clock", "least_delay_ms"):
        if getattr(args, name):
            raise _usage(f"--{name.replace('_', '-')} does not belong to --ardupilot", "it is about captures")
    file = Path(args.ardupilot)
    radios = read_log(file.read_bytes())
    if args.radio is None and len(radios) > 1:
        raise _usage(
            f"this log has the radios {', '.join(sorted(radios))}",
            "each receives another direction",
            "--radio",
        )
    radio = args.radio or next(iter(radios))
    if radio not in radios:
        raise _usage(f"this log has no radio {radio}", f"it has {', '.join(sorted(radios))}")
    low_ns, high_ns = (
        None if text is None else int(_decimal(text, option) * 10**9)
        for text, option in ((args.from_s, "--from-s"), (args.to_s, "--to-s"))
    )
    reports = [
        r
        for r in radios[radio]
        if (low_ns is None or r.t_ns >= low_ns) and (high_ns is None or r.t_ns <= high_ns)
    ]
    given = Given(
        packets_hz=None
        if args.packets_hz is None
        else float(_decimal(args.packets_hz, "--packets-hz", least=1)),
        rate_bit_s=None if args.rate_bit_s is None else _whole(args.rate_bit_s, "--rate-bit-s"),
        delay_ms=None if args.delay_ms is None else _decimal(args.delay_ms, "--delay-ms"),
    )
    meta = {
        "origin": "measured",
        "source": f"radio reports of {radio} in {file.name}; loss is a lower bound",
        "given": _told(given.__dict__),
        **_licence(args),
    }
    return _written(
        args.out, from_reports(reports, given, meta), {"reports_count": len(reports), "radio": radio}
    )


def _captures(args: argparse.Namespace) -> Json:
    from pqlink.capture import Clocks, from_captures, read_capture

    if args.sent is None or args.received is None:
        raise _usage("--sent and --received belong together", "one end alone does not tell what was lost")
    for name in ("radio", "packets_hz", "from_s", "to_s", "delay_ms"):
        if getattr(args, name):
            raise _usage(f"--{name.replace('_', '-')} does not belong to captures", "it is about --ardupilot")
    if args.one_clock and args.least_delay_ms is not None:
        raise _usage(
            "--one-clock and --least-delay-ms exclude each other", "delays are either known or shifted"
        )
    port = None if args.port is None else _whole(args.port, "--port")
    sent, received = (read_capture(Path(name).read_bytes(), port) for name in (args.sent, args.received))
    least = None if args.least_delay_ms is None else _decimal(args.least_delay_ms, "--least-delay-ms")
    rate = None if args.rate_bit_s is None else _whole(args.rate_bit_s, "--rate-bit-s")
    meta = {
        "origin": "measured",
        "source": f"captures {Path(args.sent).name} and {Path(args.received).name}",
        "given": _told({"one_clock": args.one_clock or None, "least_delay_ms": least, "rate_bit_s": rate}),
        **_licence(args),
    }
    made = from_captures(sent, received, Clocks(args.one_clock, least), rate_bit_s=rate, meta=meta)
    counts = {
        "packets_count": made.packets,
        "lost_count": made.lost,
        "outside_count": made.outside,
        "doubles_count": made.doubles,
        "strangers_count": made.strangers,
    }
    return _written(args.out, made.text, counts)


def _told(values: Json) -> str:
    told = [f"{key} {value}" for key, value in values.items() if value is not None]
    return "; ".join(told) or "nothing"


def _licence(args: argparse.Namespace) -> dict[str, str]:
    return {"licence": args.licence or "not stated: ask whoever made it"}


def _written(out: str, text: str, counts: Mapping[str, object]) -> Json:
    """Write what reads back as a trace, and say what it is."""
    from pqlink.fidelity import describe
    from pqlink.trace import parse_trace

    content = text.encode()
    trace = parse_trace(content)
    _write_new(Path(out), content)
    return {"file": shown(Path(out)), **counts, **describe(trace)}


def _write_new(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError(
            "exists",
            f"{shown(path)} is there already",
            "a trace may be part of a scenario",
            "give --out another name",
        ) from error


def _whole(text: str, option: str, least: int = 0) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) < least:
        raise _usage(
            f"{option} {text} is no whole number from {least} on", "it counts milliseconds, bits or the like"
        )
    return int(text)


def _decimal(text: str, option: str, least: int = 0) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < least:
        raise _usage(f"{option} {text} is no number from {least} on", "a plain decimal number is due")
    return value


def _usage(what: str, why: str, hint: str = _USE) -> UsageError:
    return UsageError("link-usage", what, why, hint)

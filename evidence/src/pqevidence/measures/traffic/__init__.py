"""What the tunnel carried: rates, losses, latency, the ladder of offered rates, seal and open."""

from __future__ import annotations

from pqevidence.analysis import latency, traffic
from pqevidence.kernel.check import each
from pqevidence.measures.measure import Measure, Part, in_turn
from pqevidence.measures.traffic import aead, arrival, asked, checks, control, record, section, source, tables

QUESTION = "What does a packet cost?"
MEASURE = Measure(
    name="traffic",
    make_tables=tables.make_tables,
    columns={
        "traffic": traffic.COLUMNS,
        "latency_shares": latency.COLUMNS,
        "throughput": tables.THROUGHPUT_COLUMNS,
        "aead": tables.AEAD_COLUMNS,
    },
    fill=record.fill,
    parts=(
        Part(QUESTION, section.traffic, after=None),
        Part(QUESTION, section.throughput, after="over_time"),
        Part(QUESTION, aead.aead, after="throughput"),
    ),
    checks=(
        *in_turn(
            "session_duration",
            each(
                "rate_time_packets", checks.rate_time_packets, "pass", "rate × time = packets", "% of nominal"
            ),
            each("ledger_counters", checks.ledger_counters, "pass", "one ledger row a counted datagram"),
        ),
        *in_turn(
            "ledger_gates",
            each("ledger_join", checks.ledger_join, "pass", "tx = rx on (epoch, sequence), no duplicate"),
            each(
                "arrived_while_sent", arrival.while_sent, "pass", "datagrams that arrive while they are sent"
            ),
            each("sequence_gaps", checks.sequence_gaps, "pass", "no gap that control packets do not explain"),
            each("counters_agree", checks.counters_agree, "pass", "what one end sent the other received"),
            each("control_agree", control.agree, "pass", "keepalives and answers that arrived"),
            each("counter_sums", checks.counter_sums, "pass", "totals = Σ windows"),
            each("source_told", source.told, "pass", "frames and answers as tunnel and ledgers have them"),
            each("source_asked", asked.asked, "pass", "sources, routes and gates as asked for and told"),
            each("byte_identity", checks.byte_identity, "pass", "equal digests at both ends"),
            each("seal_overhead", checks.seal_overhead, "pass", "plaintext + header and tag", "bytes"),
        ),
        *in_turn(
            "detector_model",
            each("refused_datagrams", checks.refused, "pass", "nothing refused on an unimpaired link"),
        ),
    ),
)

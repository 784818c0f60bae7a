"""The checks in the order they run: name → function, what is expected, and which cells it looks at."""

from __future__ import annotations

from pqevidence.kernel.check import Check
from pqevidence.kernel.check import each as _each
from pqevidence.kernel.check import whole as _whole
from pqevidence.measures import MEASURES
from pqevidence.measures.place import placed
from pqevidence.verify import (
    checks_asked,
    checks_attempts,
    checks_attest,
    checks_bag,
    checks_builds,
    checks_clock,
    checks_copies,
    checks_corrections,
    checks_drawn,
    checks_flightlog,
    checks_host,
    checks_lineage,
    checks_plan,
    checks_plane,
    checks_quiet,
    checks_record,
    checks_report,
    checks_ring,
    checks_run,
    checks_shape,
    checks_share,
    checks_text,
    checks_time,
)

_GENERAL: tuple[Check, ...] = (
    _whole(
        "bagit_structure", checks_bag.structure, "a BagIt 1.0 bag of sha-512", "tag files", needs_seal=True
    ),
    _whole(
        "tagmanifest_fixity",
        checks_bag.tag_fixity,
        "every tag file as sealed, none added",
        "tag files",
        needs_seal=True,
    ),
    _whole(
        "manifest_fixity",
        checks_bag.payload_fixity,
        "every file as sealed, none added or dropped",
        "files",
        needs_seal=True,
    ),
    _whole("ro_crate", checks_bag.crate, "metadata that lists every file", "files", needs_seal=True),
    _whole(
        "attributed",
        checks_bag.attributed,
        "one author, licence and citation wherever they are named",
        "bundles",
        needs_seal=True,
    ),
    _whole("files_known", checks_shape.files, "files that a run writes, and no other", "files"),
    _whole("files_asked", checks_asked.files, "traces and power samples that somebody asked for", "files"),
    _whole("versions_known", checks_shape.versions, "versions that there were, nothing later", "runs"),
    _each("version_kept", checks_shape.kept, "all", "raw files of the version that is named"),
    _whole(
        "scenario_schema", checks_plan.scenario_schema, "a valid scenario, its hash in the plan", "scenario"
    ),
    _whole("plan_schema", checks_plan.plan_schema, "a complete plan", "planned cells"),
    _each(
        "record_schema", checks_record.schema, "all", "records of pqlab/record/v1, units as in the catalogue"
    ),
    _whole(
        "cells_accounted", checks_plan.cells_accounted, "every planned cell exactly once", "planned cells"
    ),
    _whole("cell_ids", checks_plan.cell_ids, "ids that follow from scenario and builds", "planned cells"),
    _whole("run_told", checks_run.told, "one name, begin, end and controller of the run", "runs"),
    _whole("verdict_counts", checks_plan.verdict_counts, "verdicts that sum to the plan", "planned cells"),
    _each("seeds_drawn", checks_drawn.seeds, "all", "seeds that follow from the campaign's"),
    _whole("order_drawn", checks_drawn.order, "the order that the seed gives", "planned cells"),
    _whole("share_owned", checks_share.share, "a share's own blocks, of the campaign named", "planned cells"),
    _each("unsupported_proved", checks_host.unsupported, "all", "unsupported exactly where a probe says so"),
    _each("attempts_kept", checks_record.attempts, "all", "at most two repeats, each kept"),
    _each("attempts_due", checks_attempts.due, "run", "attempts again only of what was no result"),
    _each("raw_files", checks_record.raw_files, "pass", "all raw files of a result"),
    _whole("wall_clock", checks_time.run_wall, "Σ cells ≤ run, one after another", "cells"),
    _whole("order_kept", checks_time.order_kept, "cells in the order of the plan", "planned cells"),
    _whole(
        "none_between", checks_copies.idle, "attempts one after another, none gone", "gaps", value_unit="s"
    ),
    _each("times_once", checks_copies.once, "run", "no times that repeat to the nanosecond"),
    _each("clocks_steady", checks_clock.steady, "run", "one distance of the clocks in a boot"),
    _each("log_told", checks_shape.log, "all", "a log that says what the events say"),
    _whole("lineage", checks_lineage.lineage, "taken-over cells as their own run sealed them", "cells"),
    _whole(
        "corrections",
        checks_corrections.corrections,
        "layers with a reason, which take back and claim nothing",
        "layers",
    ),
    _whole(
        "attest_signed",
        checks_attest.signed,
        "chains that both ends signed, each whole",
        "chains",
        needs_seal=True,
    ),
    _whole(
        "attest_plan", checks_attest.plan, "the plan that both chains began with", "chains", needs_seal=True
    ),
    _whole(
        "attest_crossed",
        checks_attest.crossed,
        "each end's heads in the other's chain",
        "heads",
        needs_seal=True,
    ),
    _whole(
        "attest_attempts",
        checks_attest.attempts,
        "the attempts that both ends swore to",
        "accounts",
        needs_seal=True,
    ),
    _each("attest_raw", checks_attest.raw, "all", "records as the ends handed them out"),
    _whole("twins", checks_plan.twins, "A/A twins that differ in nothing but their name", "conditions"),
    _each(
        "window_sum", checks_time.window_sum, "run", "Σ windows ≤ cell wall, one after another", "s outside"
    ),
    _each("session_duration", checks_time.session_duration, "pass", "as long as the scenario says", "s"),
    _each("ledger_gates", checks_clock.gates, "pass", "datagrams within the gates of their window"),
    _each("record_medians", checks_record.medians, "pass", "medians as recomputed from spans and ledgers"),
    _each("record_rebuild", checks_record.rebuild, "all", "the record that its raw files give"),
    _each("plausible_values", checks_record.plausible, "all", "values within what their unit allows"),
    _whole("ring_derived", checks_ring.derived, "no ring above what hosts and builds show", "runs"),
    _each("ring_real", checks_ring.real, "run", "clocks and kernels of the ring claimed"),
    _each("ring_claims", checks_host.ring_claims, "all", "the weakest ring of host and sensor"),
    _each(
        "flight_log",
        checks_flightlog.flight_log,
        "run",
        "a log where one is asked for: whole frames, counted",
    ),
    _each("processors_framed", checks_quiet.framed, "run", "readings of the processors around each window"),
    _whole("quiet_before", checks_quiet.settled, "a quiet machine, or a run that says so", "sessions"),
    _whole("influx_reconcile", checks_host.influx, "points in the view = points in the files", "series"),
    _whole("providers_equal", checks_host.providers, "the same builds at both ends", "providers"),
    _whole(
        "builds_known", checks_builds.known, "digests of the version and machine that they name", "builds"
    ),
    _each("dataplane", checks_plane.one_plane, "run", "one data plane an end, the one that was due"),
    _whole("host_identity", checks_host.identity, "hosts that are who they say", "hosts"),
    _whole("selftest", checks_host.selftest, "every primitive's known answer right", "primitives"),
    _whole("no_secrets", checks_text.no_secrets, "no key, token, private address or machine path", "files"),
    _whole(
        "report_present", checks_text.report_present, "report.html and report.md", "files", needs_seal=True
    ),
    _whole(
        "report_numbers", checks_text.report_numbers, "a report of these numbers", "files", needs_seal=True
    ),
    _whole(
        "raw_fingerprints",
        checks_report.fingerprints,
        "every raw file, logs included, as the tables were made from",
        "hashes",
        needs_seal=True,
    ),
    _whole(
        "report_rebuild",
        checks_report.rebuild,
        "the tables and pages that these files give",
        "files",
        needs_seal=True,
        last=True,
    ),
)

#: those of the measures stand among them, each after the one that it names
CHECKS: tuple[Check, ...] = placed(
    _GENERAL,
    [(judged.after, judged.check) for measure in MEASURES for judged in measure.checks],
    lambda check: check.name,
)

"""The rules of submission, each a named check: what it asks, and whether it refuses a bundle or marks it.

docs/INDEX.md has the same table; a test holds the two together. What `verify` finds has the name of its own
check behind `verify.`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqevidence.errors import EXIT_CHECK, LabError, UsageError

#: before the name of a check of `verify`
VERIFY: Final = "verify."
_SHOWN_CHARS = 160


@dataclass(frozen=True)
class Rule:
    """`marks`: the bundle is in the index all the same, and the index says so; `--require` makes it refuse.
    `warns`: a mark after which the command ends with 3."""

    name: str
    asks: str
    marks: bool = False
    warns: bool = False


RULES: Final = (
    # the entry as it lies in the folder
    Rule("entry_name", "letters, digits and . _ - of ASCII, 80 at most"),
    Rule("entry_apart", "no other entry whose name differs in upper and lower case alone"),
    Rule("entry_link", "no link, but one to another entry of the folder (`latest`), which is not followed"),
    Rule("entry_kind", "a plain file or a folder, no pipe, socket or device"),
    # an archive, before and while it is unpacked
    Rule("archive_path", "paths that stay inside, plain and short"),
    Rule("archive_link", "no link"),
    Rule("archive_device", "no device and no pipe"),
    Rule("archive_type", "plain files and folders, no extended headers"),
    Rule("archive_duplicate", "no member twice, no file that is a folder too"),
    Rule("archive_too_large", "at most 2 GiB in all, 1 GiB a file, a million members"),
    Rule("archive_damaged", "whole zstd frames and tar headers, nothing behind the end"),
    Rule("archive_layout", "one folder named as a run, with the manifests of a sealed bundle"),
    Rule("archive_fixity", "every file as it was sealed"),
    # the folder of a bundle, before anything in it is opened
    Rule("member_kind", "plain files and folders only: no link, pipe or device"),
    Rule("member_name", "names of ASCII without blanks, backslashes and marks of HTML"),
    Rule("member_bounds", "at most 1 GiB a file, 2 GiB in all, 10,000 files a folder, a million entries"),
    # its documents, before any is believed
    Rule("not_flown", "measured, not flown with `pqlab fly`"),
    Rule("kind_known", "a bundle of a campaign, not of `bench-report`"),
    Rule("one_run", "a bundle of one run, not a merge: its parts are submissions of their own"),
    Rule("sealed", "sealed: bagit.txt and both manifests"),
    Rule("documents_read", "plan, run, builds and hosts: JSON objects in UTF-8, at most 32 MiB each"),
    Rule("documents_plain", "no key twice, no NaN or infinite number; YAML without aliases, 1 MiB at most"),
    Rule("version_known", "a version of pqlab that there was"),
    Rule("run_id_form", "a run id of date, time and six hex digits, the same in plan and run"),
    Rule("ring_known", "ring sim, lab or hardware"),
    Rule("dates_sane", "a run that ends after it begins, within a year, in a time that its ring can be of"),
    Rule("text_plain", "what the index shows in printable ASCII, 200 characters at most, no marks of HTML"),
    Rule("text_private", "no address of somebody's network, no path of somebody's machine in what is shown"),
    Rule("machine_told", "processor and architecture of both ends"),
    Rule("licence_form", "where a licence is named, an SPDX identifier"),
    # what verify says, and the bundle beside the others
    Rule(VERIFY + "*", "every check of `./pqlab verify`"),
    Rule("unchanged", "the same bytes after it was looked at as before"),
    Rule("looked_through", "a look that ends, within the time and memory it is given"),
    Rule("not_later", "not run later than the day of the index"),
    Rule("bundle_once", "no second copy of the same bytes, folder or archive"),
    Rule("run_once", "one content a run id; the entry that is named as the run stays"),
    # what is in the index, and marked
    Rule("licensed", "a licence: without one nobody may pass it on", marks=True),
    Rule("attested", "signed by both agents while they measured; unsigned where it is not", marks=True),
    Rule("own_cells", "cells of its own run: what it took over counts in that run alone", marks=True),
    Rule("current", "no correction of it in another entry", marks=True, warns=True),
    Rule("quiet", "begun on a quiet machine", marks=True, warns=True),
    Rule("timed", "no emulated processor, no wine: such times are no claim", marks=True, warns=True),
    Rule("no_warning", "no warning of `verify`", marks=True, warns=True),
)  # fmt: skip
BY_NAME: Final = {rule.name: rule for rule in RULES}
MARKS: Final = tuple(rule.name for rule in RULES if rule.marks)


@dataclass(frozen=True)
class Said:
    """What one check found of one entry."""

    check: str
    why: str

    def __post_init__(self) -> None:
        """A check without a row in the table is a fault of ours."""
        if self.check not in BY_NAME and not self.check.startswith(VERIFY):
            raise KeyError(self.check)

    def told(self) -> str:
        return f"{self.check}: {self.why}"


class Refused(LabError):
    """Raised where a rule refuses; caught by whoever goes through the folder."""

    def __init__(self, check: str, why: str) -> None:
        self.said = Said(check, plain(why))
        super().__init__(
            check, self.said.told(), BY_NAME[check].asks, "docs/INDEX.md lists the rules", EXIT_CHECK
        )


def plain(text: object, most: int = _SHOWN_CHARS) -> str:
    """Somebody's text as it may be shown: printable ASCII, all else as its escape, long text cut."""
    shown = str(text).encode("unicode_escape", "backslashreplace").decode("ascii")
    shown = shown.replace("\\\\", "\\")
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def required(names: list[str]) -> frozenset[str]:
    """Rules that `--require` turns from marks into refusals. Raises UsageError for one that marks nothing."""
    for name in names:
        if name not in MARKS:
            raise UsageError(
                "bad-rule",
                f"--require {plain(name)} is no rule that marks",
                f"those are {', '.join(MARKS)}",
                "the others refuse in any case: docs/INDEX.md",
            )
    return frozenset(names)

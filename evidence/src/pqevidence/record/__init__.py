"""One cell's record, computed from its raw files alone.

Reading order: raw (files → typed values), ledger (join of both ends), handshake, dataplane, system,
context (facts about the run), verdict (pass, fail, invalid …), sheet (the catalogue that every value must
fill), build (puts them together). Nothing here opens a socket or reads a clock.
"""

from pqevidence.record.build import build_record, load_context
from pqevidence.record.raw import RawDataError, RawRun
from pqevidence.record.sheet import catalogue, record_schema

__all__ = ["RawDataError", "RawRun", "build_record", "catalogue", "load_context", "record_schema"]

"""What a record is made of: the raw files of one cell as typed values, and the catalogue that a record fills.

Reading order: raw (files → typed values), ledger (join of both ends), handshake, dataplane, system,
context (facts about the run), verdict (pass, fail, invalid …), sheet (the catalogue that every value must
fill). pqevidence.records puts them together. Nothing here opens a socket or reads a clock.
"""

from pqevidence.record.raw import RawDataError, RawRun
from pqevidence.record.sheet import catalogue, record_schema

__all__ = ["RawDataError", "RawRun", "catalogue", "record_schema"]

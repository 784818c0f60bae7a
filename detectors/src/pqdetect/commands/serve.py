"""Judge each window of an endpoint's feed, as it comes; verdicts go to a file and to Telegraf."""

from pqdetect.service.serve import add, run

__all__ = ["HELP", "add", "run"]

HELP = "the streaming service: a feed in, one verdict a window out"

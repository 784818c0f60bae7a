"""Host telemetry: readers, an absolute schedule, line protocol to a file and to Telegraf.

In scope: what one Linux host can say about itself ten times a second, with every missing value explained.
Not in scope: storing, judging or drawing the values; the file beside each cell is the record.
"""

__version__ = "0.1.0"

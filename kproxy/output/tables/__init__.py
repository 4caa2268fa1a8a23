"""Tables for analysis: connections, exchanges, record batches, records. Rows come out as Arrow's; who writes them is elsewhere.

    contracts.py       what every table and column is: the one place where that is written down
    arrow.py           the contracts as Arrow schemas; Rows: tuples to Arrow columns
    tables.pyx         Tables: events in, rows out
    connections.pyx    what is counted while a connection lasts
    exchanges.pyx      a row an exchange
    gather.pyx         error codes, topics, groups anywhere in a body, found by the facts
    bodies.pyx         bodies as objects, unless they are too large
    record_batches.pyx records fields of Produce and Fetch; a row a batch
    records.py         their records
    offsets.py         a row a partition of Fetch, ListOffsets, OffsetCommit, OffsetFetch
    topics.pyx         name and id of a topic
    times.pyx          times that SQL can say

Rows are tuples in the order of the contract's columns; no row is a dict. kproxy.output.tables.parquet writes them into files.
"""

from kproxy.output.tables.arrow import check_available, schema_of
from kproxy.output.tables.contracts import TABLES, Column, Table
from kproxy.output.tables.tables import Tables

__all__ = ["TABLES", "Column", "Table", "Tables", "check_available", "schema_of"]

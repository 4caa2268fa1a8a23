"""Tables for analysis: events in; Arrow record batches, or Parquet files, out.

    contracts.py   every table and column: name, type, unit, meaning. The only place that defines them
    columns.pyx    Rows: values into Arrow's memory, written when there are enough rows
    layouts.py     the fields, by message and version, from which rows are made, found in the facts
    body.pyx       Body: finds them by one walk over the bytes of a body, and puts them into columns
    rows.pyx       rows of exchanges and record batches
    offsets.pyx    rows of offsets: one for each partition of Fetch, ListOffsets, OffsetCommit, OffsetFetch
    partitions.pyx rows of partition_states and share_deliveries
    group_events.pyx rows of group_events: a function for each API that is about groups
    changed.py     what administrators change, in words: a column of exchanges
    errors.py      rows of errors: the codes of a response, and what each is about
    records.py     rows of records, copied out of the batches as columns; rows of record batches of a decoded log
    tables.pyx     Tables: which rows an event makes; what is counted until a connection closes (ConnectionTotals) or a minute is
                   over (Activity: topic_activity)
    parquet.py     Arrow schemas of the contracts; a directory of Parquet files, complete or absent

No object is made of a body, unless a row of group_events needs one. Memory is bounded: Rows holds 8,192 rows or
4 MB of text, a file one row group, Activity the counts of 10,000 keys a connection and 200,000 in all, a connection the
states of as many partitions; a body larger than 16 MB is not taken apart (its row says so). Rows depend only on the events
of their connection, so they are the same however connections are divided among processes, except for topic_activity and
partition_states beyond those 200,000 keys.

To add
    a column that is a field at the top of bodies    contracts.py, and its line in TOP_FIELDS of layouts.py
    another column of exchanges                      contracts.py, put_exchange in rows.pyx
    a column of record_batches                       contracts.py, put_header in rows.pyx: same position in both
    a column of connections                          contracts.py, ConnectionTotals.row in tables.pyx
    an API that is about groups                      its function in READERS of group_events.pyx
    a table                                          contracts.py (TABLES), its Rows in Tables, the rows in a module of its own
"""

from kproxy.output.tables.contracts import TABLES, Column, Table
from kproxy.output.tables.parquet import check_available, schema_of
from kproxy.output.tables.tables import Tables

__all__ = ["TABLES", "Column", "Table", "Tables", "check_available", "schema_of"]

"""Export selections of a running proxy's exchanges as packets and as tables, as ``kproxy decode`` would write them.

Packets are made of the kept frames, and ordered by their times in temporary files (kproxy.pipeline.pcapng_output), from which
they are sent. Tables are the kept rows, written a part at a time. Exchanges that are removed meanwhile to make room are left out.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.errors import UsageError
from kproxy.output.rewriting.anonymize import KEY_SIZE, Anonymizer, Pseudonyms
from kproxy.output.rewriting.rewriter import Rewriter, WithoutRecords
from kproxy.output.tables import TABLES, Table, schema_of
from kproxy.output.tables.parquet import ParquetDirectory
from kproxy.page.live.store import Live
from kproxy.page.store import Index
from kproxy.page.work import Work
from kproxy.pipeline.pcapng_output import OrderedPackets

if TYPE_CHECKING:
    import duckdb

CHECK_EVERY = 256  # exchanges
ROWS = 65_536  # written at a time
AT_ONCE = 1 << 20  # about how many bytes are sent at a time
# Fields that packets lack, or number anew: conditions on these select other exchanges in a file
NOT_IN_PACKETS = frozenset(
    {"connection", "principal", "brokerMs", "requestInProxyMs", "responseInProxyMs", "unanswered"}
)


def packets(store: Live, work: Work, numbers: Iterable[int], *, anonymized: bool) -> Iterator[bytes]:
    """Return a pcapng file of these ascending exchanges, in pieces. Raises Cancelled, UsageError when it is called."""
    rewriter = Rewriter() if store.records else WithoutRecords(keeps_size=False)
    if anonymized:
        rewriter = Anonymizer(Pseudonyms(os.urandom(KEY_SIZE)))
    made = OrderedPackets(rewriter)
    try:
        for count, exchange in enumerate(store.events(numbers)):
            if count % CHECK_EVERY == 0:
                work.check()
            made.write(exchange, None)
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise UsageError(f"the packets could not be put in order in a temporary file: {error.strerror}") from error
        raise
    return _sent(made)


def _sent(made: OrderedPackets) -> Iterator[bytes]:
    try:
        yield from in_pieces(made.blocks())
    finally:
        made.close()


def in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces, of at least AT_ONCE: two processes pass each on, from a thread to a loop."""
    held, size = list[bytes](), 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= AT_ONCE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def write_tables(store: Live, work: Work, chosen: Index | None, target: Path) -> None:
    """Write the rows of the chosen exchanges (None: all) into a directory; the table of connections completely.

    Raises Cancelled, and UsageError for a full disk.
    """
    tables = [table for table in TABLES.values() if not table.optional]
    try:
        with (
            store.cursor() as cursor,
            store.held(work) as parts,
            ParquetDirectory(target, tables) as directory,
            work.ended_by(cursor.interrupt),
        ):
            for part in parts:
                only = "" if chosen is None else _register_keys(cursor, part("exchanges"), chosen)
                for table in tables:
                    query = f"SELECT {_columns(table)} FROM {part(table.name)}{only if _is_of_exchanges(table) else ''}"
                    write_rows(cursor, query, table, directory)
    except OSError as error:
        raise UsageError(f"the tables could not be written to {target.parent}: {error.strerror}") from error


def write_rows(cursor: "duckdb.DuckDBPyConnection", query: str, table: Table, directory: ParquetDirectory) -> None:
    """Write the rows that a query gives, a batch at a time: however many there are, few are in memory."""
    schema = schema_of(table)
    for batch in cursor.sql(query).to_arrow_reader(ROWS):
        directory.write(table, batch.cast(schema))


def _is_of_exchanges(table: Table) -> bool:
    return {"connection_id", "exchange"} <= {column.name for column in table.columns}


def _columns(table: Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _register_keys(cursor: Any, exchanges: str, chosen: Index) -> str:
    """Register the keys of the chosen exchanges of a part; return what to append to the FROM of a query."""
    only = Live.register(cursor, chosen)
    query = f"SELECT e.connection_id, e.exchange FROM {exchanges} e WHERE true{only}"
    cursor.register("page_exported", cursor.sql(query).to_arrow_table())
    return " SEMI JOIN page_exported USING (connection_id, exchange)"

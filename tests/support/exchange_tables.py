"""Directories of tables with any number of exchanges, made without decoding: for what reads tables."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kproxy.output.tables import TABLES, schema_of
from kproxy.output.tables.parquet import ParquetDirectory

BATCH = 65_536
START = 1_763_717_797_000_000  # microseconds since the epoch
APIS = [
    (1, "Fetch", 17),
    (0, "Produce", 11),
    (12, "Heartbeat", 4),
    (8, "OffsetCommit", 9),
    (3, "Metadata", 13),
    (22, "InitProducerId", 5),
]
CONNECTIONS = f"""
    SELECT md5('connection ' || i) AS connection_id, i + 1 AS connection, 'made' AS capture,
        '10.0.' || (i // 250) || '.' || (i % 250) AS client_address, 40000 + i AS client_port,
        '10.9.0.' || (1 + i % 5) AS broker_address, 9092 AS broker_port,
        make_timestamptz({START}) AS first_seen_at, make_timestamptz({START} + 3600000000) AS last_seen_at,
        ['client-' || (i % 97)] AS client_ids, 1 AS requests, 1 AS responses, 1 AS request_bytes, 1 AS response_bytes,
        0 AS unanswered, 0 AS undecoded, 0 AS errors, 0 AS gaps, 0 AS missing_bytes, 0 AS skipped_bytes, 0 AS bad_frames,
        'TLS 1.3' AS tls_version, 'end of capture' AS closed
    FROM range($connections) t(i)
"""
EXCHANGES = f"""
    SELECT md5('connection ' || c) AS connection_id, 1 + i // $connections AS exchange,
        make_timestamptz({START} + i * 3600) AS request_at, make_timestamptz({START} + i * 3600 + us) AS response_at,
        us / 1000.0 AS latency_ms, api.key AS api_key, api.name AS api_name, api.version - c % 3 AS api_version,
        i % 2147483647 AS correlation_id, CASE WHEN c % 31 = 0 THEN NULL ELSE 'client-' || (c % 97) END AS client_id,
        60 + h % 5000 AS request_size, CASE WHEN h % 1009 = 0 THEN NULL ELSE 40 + h % 90000 END AS response_size,
        h % 1009 <> 0 OR h % 2 = 0 AS expects_response,
        CASE WHEN h % 1009 = 0 THEN 'the capture ended' END AS unanswered,
        CASE WHEN h % 211 = 0 THEN [16] WHEN h % 503 = 0 THEN [6, 3] ELSE [] END AS error_codes,
        CASE WHEN h % 211 = 0 THEN 'NOT_COORDINATOR' WHEN h % 503 = 0 THEN 'NOT_LEADER_OR_FOLLOWER' END AS error_name,
        CASE WHEN h % 5 = 0 THEN [] ELSE ['topic-' || (h % 211)] END AS topics, 1 AS partitions,
        ['group-' || (c % 41)] AS groups, 'group-' || (c % 41) AS group_id, h % 50 AS records, h % 60000 AS record_bytes
    FROM (
        SELECT i, h, h % $connections AS c, 100 + h % 20000 + CASE WHEN h % 997 = 0 THEN 900000 ELSE 0 END AS us,
            {[{"key": key, "name": name, "version": version} for key, name, version in APIS]}[1 + h % {len(APIS)}] AS api
        FROM (SELECT i, CAST(hash(i) % 1000000007 AS BIGINT) AS h FROM range($first, $last) t(i))
    )
"""


def write_tables(path: Path, exchanges: int, connections: int = 2_000) -> None:
    """Write a directory of tables with so many exchanges, the same ones each time."""
    tables = [table for table in TABLES.values() if not table.optional]
    with duckdb.connect() as database, ParquetDirectory(path, tables) as directory:
        database.execute("SET TimeZone = 'UTC'")

        def write(name: str, query: str, **values: Any) -> None:
            rows = database.sql(query, params=values).to_arrow_table()
            schema = schema_of(TABLES[name])
            filled = [
                rows.column(field.name).cast(field.type)
                if field.name in rows.column_names
                else _empty(field, len(rows))
                for field in schema
            ]
            for batch in pa.table(filled, schema=schema).to_batches():
                directory.write(TABLES[name], batch)

        write("connections", CONNECTIONS, connections=connections)
        for first in range(0, exchanges, BATCH):
            write("exchanges", EXCHANGES, connections=connections, first=first, last=min(first + BATCH, exchanges))


def _empty(field: pa.Field, rows: int) -> pa.Array:
    if not field.nullable and pa.types.is_list(field.type):
        return pa.array([[]] * rows, field.type)
    return pa.nulls(rows, field.type)

"""Rows of the tables, made by hand: what clients do, in the words of Kafka. Times are seconds after START."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES, schema_of
from kproxy.output.tables.parquet import MARKER, marker_text
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_codes
from tests.support.tables import few_rows

START = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
BROKER = "10.0.0.9"
EMPTY = {"string": "", "int64": 0, "int32": 0, "int16": 0, "bool": False}  # else a list


def moment(at: float) -> datetime.datetime:
    """*at* seconds after START."""
    return START + datetime.timedelta(microseconds=round(at * 1_000_000))


class Rows:
    """The rows of every table so far."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def client(self, client_id: str | None = "app", address: str = "10.0.0.5", **connection: Any) -> "Client":
        """A connection of a client; *connection* are columns of ``connections``."""
        return Client(self, client_id, address, connection)

    def add(self, table: str, **columns: Any) -> dict[str, Any]:
        """A row; what is not given is null, or empty where the contract has no null."""
        known = {column.name: column for column in TABLES[table].columns}
        assert columns.keys() <= known.keys(), columns.keys() - known.keys()
        row: dict[str, Any] = {
            name: None if column.nullable else EMPTY.get(column.type, []) for name, column in known.items()
        }
        row.update(columns)
        self.tables[table].append(row)
        return row

    def repeat_in_another_cluster(self) -> None:
        """Add every row once more, as another capture of another broker has it: the same clients, groups and topics."""
        for name, rows in self.tables.items():
            place = {"capture": "made elsewhere", "broker_address": "10.9.9.9"} if name == "connections" else {}
            rows += [{**row, **place, "connection_id": f"{row['connection_id']}-elsewhere"} for row in rows]

    def repeat_later(self, hours: int) -> None:
        """Add every row once more, on the same connections: the same happens again *hours* later, in later generations."""
        last = max(row["exchange"] for row in self.tables["exchanges"])
        later = datetime.timedelta(hours=hours)
        for name, rows in self.tables.items():
            if name != "connections":
                rows += [_shifted(row, later, last) for row in rows]
        self._prolong(later)

    def pause_in_between(self, hours: int) -> None:
        """Move the second half of what happens *hours* later."""
        times = [row["request_at"] for row in self.tables["exchanges"]]
        middle, later = min(times) + (max(times) - min(times)) / 2, datetime.timedelta(hours=hours)
        moved = {
            (row["connection_id"], row["exchange"]) for row in self.tables["exchanges"] if row["request_at"] > middle
        }
        for name, rows in self.tables.items():
            if name != "connections":
                rows[:] = [
                    _shifted(row, later) if (row["connection_id"], row["exchange"]) in moved else row for row in rows
                ]
        self._prolong(later)

    def _prolong(self, later: datetime.timedelta) -> None:
        for connection in self.tables["connections"]:
            if connection["last_seen_at"] is not None:
                connection["last_seen_at"] += later

    def arrow(self, name: str) -> pa.Table:
        """A table with its rows."""
        return pa.Table.from_pylist(self.tables[name], schema_of(TABLES[name]))

    def write(self, folder: Path) -> Path:
        """Write all tables as Parquet into *folder*."""
        for name in self.tables:
            (folder / name).mkdir(parents=True)
            pq.write_table(self.arrow(name), folder / name / "part-0.parquet")
        (folder / MARKER).write_text(marker_text("a test", {}))
        return folder

    def answer(self, folder: Path, analysis: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of an analysis, by DuckDB; the tables are written below *folder*."""
        with Database([self.write(folder / f"tables-of-{analysis}")], reading=few_rows()) as database:
            rows: list[dict[str, Any]] = database.run(library.load()[analysis], **parameters).to_pylist()
        return rows


class Client:
    """One connection. Every method takes the time of its request, and returns the number of the exchange."""

    def __init__(self, rows: Rows, client_id: str | None, address: str, connection: dict[str, Any]) -> None:
        self._rows = rows
        self._number = len(rows.tables["connections"]) + 1
        self._exchanges = 0
        self.client_id, self.id = client_id, f"c{self._number}"
        self._connection = rows.add(
            "connections",
            **{
                "connection_id": self.id,
                "connection": self._number,
                "capture": "made by hand",
                "client_address": address,
                "client_port": 50_000 + self._number,
                "broker_address": BROKER,
                "broker_port": 9092,
                "client_ids": [] if client_id is None else [client_id],
                "closed": "finished",
                **connection,
            },
        )

    def ask(self, at: float, api: ApiKey, *, seconds: float = 0.002, **columns: Any) -> int:
        """An exchange that takes *seconds*; *columns* are those of ``exchanges``."""
        self._exchanges += 1
        seen = self._connection
        seen["first_seen_at"] = min(seen["first_seen_at"] or moment(at), moment(at))
        seen["last_seen_at"] = max(seen["last_seen_at"] or moment(at), moment(at + seconds))
        seen["requests"] += 1
        unanswered = columns.get("unanswered") is not None
        seen["responses"] += not unanswered
        groups = [columns["group_id"]] if "group_id" in columns else []
        row = {
            "connection_id": self.id,
            "exchange": self._exchanges,
            "request_at": moment(at),
            "response_at": None if unanswered else moment(at + seconds),
            "latency_ms": None if unanswered else seconds * 1000,
            "api_key": int(api),
            "api_name": "".join(part.title() for part in api.name.split("_")),
            "api_version": 9,
            "correlation_id": self._exchanges - 1,
            "client_id": self.client_id,
            "request_size": 100,
            "response_size": None if unanswered else 100,
            "expects_response": True,
            "groups": groups,
            "error_name": name_of(columns["error_codes"][0]) if columns.get("error_codes") else None,
        }
        self._rows.add("exchanges", **{**row, **columns})
        return self._exchanges

    def error(
        self,
        at: float,
        api: ApiKey,
        code: int,
        resource: str | None = None,
        partition: int | None = None,
        *,
        kind: str = "topic",
        **columns: Any,
    ) -> int:
        """An exchange whose response has an error code for a resource."""
        exchange = self.ask(at, api, error_codes=[code], **columns)
        of_api = {"api_key": int(api), "api_name": self._rows.tables["exchanges"][-1]["api_name"]}
        of_error = {"error_code": code, "error_name": name_of(code), "count": 1}
        of_resource = {"resource_type": kind, "resource": resource, "partition": partition}
        self._add("errors", at + 0.002, exchange, client_id=self.client_id, **of_api, **of_error, **of_resource)
        return exchange

    def produce(
        self, at: float, topic: str, partition: int = 0, *, acks: int = -1, count: int = 1, **batch: Any
    ) -> int:
        """A Produce request with one batch; *batch* are columns of ``record_batches``, such as the error_code that refuses it."""
        request = {"acks": acks, "topics": [topic], "records": count, "record_batches": 1}
        code = batch.get("error_code", 0)
        if code:
            exchange = self.error(at, ApiKey.PRODUCE, code, topic, partition, **request)
        else:
            exchange = self.ask(at, ApiKey.PRODUCE, **request)
        self._batch(at, exchange, "produce", topic, partition, count, batch)
        return exchange

    def fetch(
        self,
        at: float,
        topic: str,
        offset: int | None,
        partition: int = 0,
        *,
        end: int = -1,
        stable: int = -1,
        count: int = 0,
        error_code: int = 0,
        **columns: Any,
    ) -> int:
        """A Fetch of one partition whose high watermark is *end*; it brings *count* records in one batch, if any."""
        size = columns.pop("size", 100 * count)
        exchange = self.ask(
            at,
            ApiKey.FETCH,
            **{
                "topics": [topic],
                "partitions": 1,
                "replica_id": -1,
                "records": count,
                "record_batches": min(count, 1),
                "record_bytes": size,
                **columns,
            },
        )
        of_log = {"high_watermark": end, "last_stable_offset": stable, "log_start_offset": 0}
        self._offset(at, exchange, "fetch", topic, partition, offset, error_code, replica_id=-1, **of_log)
        if count:
            self._batch(at + 0.002, exchange, "fetch", topic, partition, count, {"size": size, "base_offset": offset})
        return exchange

    def list_offset(self, at: float, topic: str, partition: int, offset: int) -> None:
        """A ListOffsets request for the end of a partition."""
        exchange = self.ask(at, ApiKey.LIST_OFFSETS, topics=[topic])
        self._offset(at, exchange, "list", topic, partition, offset, replica_id=-1, asked_timestamp_ms=-1)

    def commit(self, at: float, group: str, topic: str, offset: int, partition: int = 0, *, partitions: int = 1) -> int:
        """An OffsetCommit of *partition*, or of so many from it on."""
        exchange = self.ask(at, ApiKey.OFFSET_COMMIT, group_id=group, topics=[topic])
        for number in range(partition, partition + partitions):
            self._offset(at, exchange, "commit", topic, number, offset, group_id=group)
        return exchange

    def committed(self, at: float, group: str, topic: str, offset: int, partition: int = 0) -> None:
        """An OffsetFetch that finds an offset, or none (-1)."""
        exchange = self.ask(at, ApiKey.OFFSET_FETCH, group_id=group, topics=[topic])
        self._offset(at, exchange, "committed", topic, partition, offset, group_id=group)

    def group(self, at: float, event: str, group: str, *, api: ApiKey = ApiKey.JOIN_GROUP, **columns: Any) -> int:
        """An exchange with a row of ``group_events``."""
        code = columns.setdefault("error_code", 0)
        exchange = self.ask(
            at, api, group_id=group, member_id=columns.get("member_id"), error_codes=[code] if code else []
        )
        self.event(at, exchange, event, group, **columns)
        return exchange

    def event(self, at: float, exchange: int, event: str, group: str, **columns: Any) -> None:
        """A further row of ``group_events`` of an exchange."""
        row = {
            "request_at": moment(at),
            "group_type": "classic",
            "group_id": group,
            "event": event,
            "client_id": self.client_id,
            "error_name": name_of(columns.get("error_code", 0)),
        }
        self._add("group_events", at + 0.002, exchange, **{**row, **columns})

    def record(
        self, exchange: int, topic: str, key: bytes | None = None, *, partition: int = 0, **columns: Any
    ) -> None:
        """A record, of a Produce request unless *columns* say otherwise."""
        known = {"direction": "produce", "topic": topic, "partition": partition, "key": key}
        self._rows.add("records", connection_id=self.id, exchange=exchange, **{**known, **columns})

    def _add(self, table: str, at: float, exchange: int, **columns: Any) -> None:
        self._rows.add(table, connection_id=self.id, exchange=exchange, seen_at=moment(at), **columns)

    def _offset(
        self,
        at: float,
        exchange: int,
        kind: str,
        topic: str,
        partition: int,
        offset: int | None,
        code: int = 0,
        **more: Any,
    ) -> None:
        columns = {
            "kind": kind,
            "topic": topic,
            "partition": partition,
            "partition_offset": offset,
            "error_code": code,
            **more,
        }
        self._add("offsets", at + 0.002, exchange, client_id=self.client_id, **columns)

    def _batch(
        self, at: float, exchange: int, direction: str, topic: str, partition: int, count: int, batch: dict[str, Any]
    ) -> None:
        row = {
            "direction": direction,
            "topic": topic,
            "partition": partition,
            "error_code": 0,
            "count": count,
            "size": 100 * count,
            "codec": "none",
            "magic": 2,
            "timestamp_type": "CreateTime",
            "max_timestamp": moment(at),
            "producer_id": -1,
            "is_transactional": False,
            "is_control": False,
            "crc_valid": True,
        }
        self._add("record_batches", at, exchange, **{**row, **batch})


def _shifted(row: dict[str, Any], later: datetime.timedelta, exchanges: int = 0) -> dict[str, Any]:
    """The row that much later, as an exchange with a higher number; with *exchanges*, its generations go on, and a
    static member comes back under another id."""
    times = {name: value + later for name, value in row.items() if isinstance(value, datetime.datetime)}
    generations = {
        name: row[name] + 1000
        for name in ("generation", "response_generation")
        if exchanges and (row.get(name) or 0) > 0
    }
    member = {"member_id": f"{row['member_id']}-later"} if exchanges and row.get("group_instance_id") else {}
    return {**row, **times, **generations, **member, "exchange": row["exchange"] + exchanges}


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    return error_codes()[code].name

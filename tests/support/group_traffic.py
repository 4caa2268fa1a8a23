"""Traffic of groups made by hand, second by second: what no client can be made to send at will.

    traffic = GroupTraffic("g")
    traffic.join(0, "m1", 1, members=["m1"], leader="m1")      # second, member, generation that the broker answers
    traffic.sync(1, "m1", 1, ["t-0", "t-1"], leads=True)
    traffic.leave(9, "m1")
    rows = traffic.rows(tmp_path, "rebalances")

A member m7 is client app-7 at 10.0.0.7, on one connection, unless it is named otherwise.
"""

from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Any

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES, Tables
from kproxy.output.tables.parquet import ParquetDirectory
from kproxy.protocol import ApiKey, message
from kproxy.session import Connection, Exchange, Frame
from tests.support.frames import array, string
from tests.support.messages import make
from tests.support.tables import few_rows

SECOND = 10**9
KEYS = {
    "consumer": ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "share": ApiKey.SHARE_GROUP_HEARTBEAT,
    "streams": ApiKey.STREAMS_GROUP_HEARTBEAT,
}
VERSIONS = {ApiKey.OFFSET_COMMIT: 9}  # with names of topics


class GroupTraffic:
    """The exchanges of one group; others add theirs by ``beside``."""

    def __init__(
        self, group: str, *, broker: str = "10.0.0.99:9092", capture: str = "made", protocol_type: str = "consumer"
    ) -> None:
        self.group, self.broker, self.capture, self.protocol_type = group, broker, capture, protocol_type
        self.exchanges: list[tuple[Exchange, str]] = []
        self._connections: dict[tuple[str, str], Connection] = {}

    def beside(self, other: "GroupTraffic") -> "GroupTraffic":
        """Add the exchanges of another."""
        self.exchanges += other.exchanges
        return self

    def send(
        self, second: float, sender: str, key: ApiKey, asked: dict[str, Any], told: dict[str, Any] | None, **who: str
    ) -> None:
        """One exchange of the sender; fields of request and response (None: no response) by name, structs as dicts."""
        number = sender.lstrip("abcdefghijklmnopqrstuvwxyz")
        address = who.get("address", f"10.0.0.{number}:{1000 + len(self._connections)}")
        connection = self._connections.setdefault(
            (sender, self.broker), Connection(hash((sender, self.broker, self.capture)) % 10**6, address, self.broker)
        )
        at, name = int(second * SECOND), _camel(key)
        request, response = message(f"{name}Request"), message(f"{name}Response")
        version = VERSIONS.get(key, request.versions.highest)
        frames = [
            Frame(
                layout.encode(version, make(layout.name, **fields)),
                start,
                start + 1000,
                None,
                0,
                layout,
                version,
            )
            for layout, fields, start in ((request, asked, at), (response, told, at + SECOND // 1000))
            if fields is not None
        ]
        client_id = who.get("client_id", f"app-{number}")
        answer = frames[1] if told is not None else None
        self.exchanges.append((Exchange(connection, at, key, version, 1, client_id, frames[0], answer), self.capture))

    def metadata(self, second: float, sender: str, cluster_id: str) -> None:
        """The sender is told of the cluster."""
        self.send(second, sender, ApiKey.METADATA, {"topics": []}, {"cluster_id": cluster_id})

    def join(
        self,
        second: float,
        member: str,
        generation: int,
        *,
        members: Sequence[str] = (),
        leader: str = "",
        error: int = 0,
        instance: str | None = None,
        **who: str,
    ) -> None:
        """A member asks to join and is answered a generation, or an error."""
        protocols = [{"name": "range", "metadata": _subscription()}]
        asked = {
            "group_id": self.group, "member_id": "" if error == 79 else member, "protocol_type": self.protocol_type,
            "protocols": protocols, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "group_instance_id": instance,
        }  # fmt: skip
        told = {
            "error_code": error, "generation_id": generation, "member_id": member, "leader": leader, "protocol_name": "range",
            "members": [{"member_id": each, "metadata": b""} for each in members],
        }  # fmt: skip
        self.send(second, member, ApiKey.JOIN_GROUP, asked, told, **who)

    def unanswered_join(self, second: float, member: str) -> None:
        """A member asks to join and is not answered until the end."""
        asked = {
            "group_id": self.group,
            "member_id": member,
            "protocol_type": self.protocol_type,
            "session_timeout_ms": 10_000,
        }
        self.send(second, member, ApiKey.JOIN_GROUP, asked, None)

    def sync(
        self, second: float, member: str, generation: int, partitions: Sequence[str], *, leads: bool = False, **who: str
    ) -> None:
        """A member is told its partitions of topic t."""
        data = _assignment([int(each.rpartition("-")[2]) for each in partitions])
        given = [{"member_id": member, "assignment": data}] if leads else []
        asked = {
            "group_id": self.group, "generation_id": generation, "member_id": member, "protocol_type": self.protocol_type,
            "protocol_name": "range", "assignments": given,
        }  # fmt: skip
        self.send(
            second, member, ApiKey.SYNC_GROUP, asked, {"assignment": data, "protocol_type": self.protocol_type}, **who
        )

    def beat(
        self, second: float, member: str, generation: int, *, error: int = 0, instance: str | None = None, **who: str
    ) -> None:
        """A heartbeat of a classic group."""
        asked = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member,
            "group_instance_id": instance,
        }
        self.send(second, member, ApiKey.HEARTBEAT, asked, {"error_code": error}, **who)

    def leave(
        self,
        second: float,
        member: str,
        *,
        sender: str | None = None,
        instance: str | None = None,
        reason: str | None = None,
        **who: str,
    ) -> None:
        """A member leaves, or another sender removes it."""
        identity = {"member_id": "" if instance else member, "group_instance_id": instance, "reason": reason}
        told = {"members": [{"member_id": identity["member_id"], "group_instance_id": instance}]}
        asked = {"group_id": self.group, "members": [identity]}
        self.send(second, sender or member, ApiKey.LEAVE_GROUP, asked, told, **who)

    def delete(self, second: float, sender: str) -> None:
        """An administrator deletes the group."""
        told = {"results": [{"group_id": self.group}]}
        self.send(second, sender, ApiKey.DELETE_GROUPS, {"groups_names": [self.group]}, told)

    def commit(self, second: float, sender: str, offset: int, *, epoch: int | None = None) -> None:
        """A commit of a client that is no member, or of a member in an epoch."""
        partition = {"partition_index": 0, "committed_offset": offset}
        topic = {"name": "t", "partitions": [partition]}
        done = {"name": "t", "partitions": [{}]}
        member = {"member_id": sender if epoch else "", "generation_id_or_member_epoch": epoch or -1}
        asked = {"group_id": self.group, "topics": [topic], **member}
        self.send(second, sender, ApiKey.OFFSET_COMMIT, asked, {"topics": [done]})

    def told_to_rebalance(self, second: float, member: str, generation: int) -> None:
        """A heartbeat of the classic protocol is answered with REBALANCE_IN_PROGRESS."""
        asked = {"group_id": self.group, "generation_id": generation, "member_id": member}
        self.send(second, member, ApiKey.HEARTBEAT, asked, {"error_code": 27})

    def epoch(
        self, kind: str, second: float, member: str, epoch: int, answer: int, *, instance: str | None = None
    ) -> None:
        """A heartbeat of a group of KIP-848 or its kin."""
        asked = {"group_id": self.group, "member_id": member, "member_epoch": epoch}
        if instance:
            asked["instance_id"] = instance
        self.send(second, member, KEYS[kind], asked, {"member_id": member, "member_epoch": answer})

    def round(self, second: float, generation: int, *members: str) -> None:
        """All members join and are given one partition each; the first leads."""
        for n, member in enumerate(members):
            self.join(second + n / 100, member, generation, leader=members[0], members=members if n == 0 else ())
        for n, member in enumerate(members):
            self.sync(second + 0.5 + n / 100, member, generation, [f"t-{n}"])

    def rows(self, folder: Path, analysis: str) -> list[dict[str, Any]]:
        """The rows of an analysis over it."""
        found: dict[str, list[Any]] = {}
        tables = Tables(lambda table, rows: found.setdefault(table.name, []).append(rows))
        for exchange, capture in sorted(self.exchanges, key=lambda each: each[0].at):
            tables.add(exchange, capture)
        tables.flush()
        with ParquetDirectory(folder / "tables", tables.tables) as directory:
            for name, batches in found.items():
                for batch in batches:
                    directory.write(TABLES[name], batch)
        with Database([folder / "tables"], reading=few_rows()) as database:
            return database.run(library.load()[analysis]).to_pylist()


def _camel(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def _subscription() -> bytes:
    """ConsumerProtocolSubscription v0 of topic t."""
    return pack(">h", 0) + array(string("t")) + pack(">i", -1)


def _assignment(partitions: Sequence[int]) -> bytes:
    """ConsumerProtocolAssignment v0 of topic t."""
    return pack(">h", 0) + array(string("t") + array(*(pack(">i", each) for each in partitions))) + pack(">i", -1)

"""Fetched: the records that were read from each partition in all Fetch answers of a connection, recorded and new.

Which records one answer holds depends on when it is asked, to the millisecond. So of a single answer only errors are compared;
records are compared over all answers together: by offset, with key, value, headers and time.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kproxy.protocol.records import read_records
from kproxy.replay.comparing import Comparison, Difference, shown
from kproxy.replay.left_out import LeftOut
from kproxy.replay.recording import ConnectionId

MOST_RECORDS = 5_000_000  # that are remembered, of both sides; what comes after is not compared
Key = tuple[ConnectionId, str, int]  # connection, topic, partition
PATH = "responses.partitions.records"


class Fetched:
    """The records of one replay, by connection and partition.

    Args:
        recorded_name, new_name: topic id -> topic.
        moved: recorded offset, topic, partition -> the offset of that record in the new cluster.
    """

    def __init__(
        self,
        recorded_name: Callable[[str], str],
        new_name: Callable[[str], str],
        moved: Callable[[int, str, int], int] = lambda offset, topic, partition: offset,
    ) -> None:
        self._names = (recorded_name, new_name)
        self._moved = moved
        self._found: dict[Key, tuple[dict[int, int], dict[int, int]]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there were more records than are compared."""
        return self._count >= MOST_RECORDS

    def add(self, connection: ConnectionId, recorded: Any, new: Any) -> Comparison:
        """Note the records of two answers, and return how the answers differ in everything else."""
        comparison = Comparison()
        error = recorded.by_attribute["error_code"]
        if recorded.error_code != new.error_code:
            values = (shown("FetchResponse", error, one.error_code) for one in (recorded, new))
            comparison.differences.append(Difference("errorCode", "errorCode", *values))
        errors = [self._note(connection, side, answer) for side, answer in enumerate((recorded, new))]
        for (topic, partition), code in errors[0].items():
            other = errors[1].get((topic, partition))
            if other is not None and other != code:
                values = (shown("FetchResponse", error, value) for value in (code, other))
                where = f"responses[{topic}].partitions[{partition}].errorCode"
                comparison.differences.append(Difference("responses.partitions.errorCode", where, *values))
        if errors[0] != errors[1] and not comparison.differences:
            comparison.left_out[LeftOut.DIVISION] += 1
        return comparison

    def differences(self) -> Iterator[tuple[ConnectionId, Difference]]:
        """Yield the partitions from which different records were read."""
        for (connection, topic, partition), (read, new) in self._found.items():
            recorded = {self._moved(offset, topic, partition): record for offset, record in read.items()}
            if recorded == new:
                continue
            different = sorted(
                offset for offset in recorded.keys() | new.keys() if recorded.get(offset) != new.get(offset)
            )
            where = f"responses[{topic}].partitions[{partition}].records"
            yield (
                connection,
                Difference(
                    PATH,
                    where,
                    f"{len(read):,} records",
                    f"{len(new):,} records, {len(different):,} missing or others, from offset {different[0]:,} on",
                ),
            )

    def _note(self, connection: ConnectionId, side: int, answer: Any) -> dict[tuple[str, int], int]:
        """Note the records of an answer; return its error codes by partition."""
        errors = {}
        for topic in answer.responses:
            name = topic.topic or self._names[side](topic.topic_id)
            for partition in topic.partitions:
                errors[name, partition.partition_index] = partition.error_code
                if partition.records:
                    key = (connection, name, partition.partition_index)
                    self._add(self._found.setdefault(key, ({}, {}))[side], partition.records)
        return errors

    def _add(self, hashes: dict[int, int], records: bytes) -> None:
        for batch in read_records(records):
            if batch.is_control or self.is_full:
                continue
            for record in batch.records:
                hashes[record.offset] = hash((record.key, record.value, tuple(record.headers)))
                self._count += 1

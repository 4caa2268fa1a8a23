"""Offsets of logs that end elsewhere: a capture replayed to a broker whose log holds records already."""

from typing import Any

from kproxy.protocol import ApiKey, message
from kproxy.replay.offsets import first_appended
from tests.support.replayed import RecordedBroker, recorded, replayed

MORE = 1_000


def test_the_first_offset_of_each_partition() -> None:
    """Capture 01 begins with an empty topic of three partitions; capture 10 with one that has records (captures/README.md)."""
    assert first_appended(recorded(1), recorded(1).requests) == {("orders", number): 0 for number in range(3)}
    assert min(first_appended(recorded(10), recorded(10).requests).values()) > 0


def test_requests_and_answers_move_with_the_log() -> None:
    """Every offset is more by as much as there is already; the consumer asks for, and commits, what the producer wrote."""

    def appended(answer: bytes) -> bytes:
        decoded: Any = message("ProduceResponse").decode(13, answer)
        for partition in decoded.responses[0].partition_responses:
            partition.base_offset += MORE
        return message("ProduceResponse").encode(13, decoded)

    recording = recorded(1)
    broker = RecordedBroker(recording, change={ApiKey.PRODUCE: appended}, more=MORE, always=True)
    _, result = replayed(recording, broker)
    assert not [api for api, *_ in result.differences if api == "Produce"]
    commits = [
        message("OffsetCommitRequest").decode(9, body) for api, body in broker.asked if api == ApiKey.OFFSET_COMMIT
    ]
    offsets = [p.committed_offset for one in commits for topic in one.topics for p in topic.partitions]  # type: ignore[attr-defined]
    written = [one for one in recording.requests if one.api_key == ApiKey.OFFSET_COMMIT]
    before = [p.committed_offset for one in written for topic in one.body().topics for p in topic.partitions]
    assert offsets == [offset + MORE for offset in before] and sum(before) == 200  # captures/README.md

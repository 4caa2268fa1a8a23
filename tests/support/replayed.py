"""Replaying: recordings, and a broker that answers each request with what was recorded for it."""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from struct import unpack_from
from typing import Any

from kproxy.protocol import (
    ApiKey,
    Direction,
    known_message,
    request_header_version,
    response_header_version,
)
from kproxy.protocol.addresses import Address
from kproxy.replay.cluster import Cluster
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.player import Options, Player
from kproxy.replay.preparing import first_appended
from kproxy.replay.recording import Recording, read_recording
from kproxy.replay.result import Result
from tests.support.backend import answer_to, frame_from, listening
from tests.support.corpus import CAPTURES
from tests.support.messages import make

PATIENCE_S = 30.0


def capture(number: int) -> Path:
    """The sample capture of that number."""
    return next(CAPTURES.glob(f"{number:02}-*.pcap*"))


def recorded(number: int, where: str | None = None) -> Recording:
    """What is read of a sample capture."""
    return read_recording([capture(number)], where=where)


class RecordedBroker:
    """Answers with the recorded bytes, by the bytes of the request's body; what was not recorded, not at all.

    Args:
        close_at: close the connection in place of answering that API.
        gone_after: close every connection at once, after so many requests.
        silent_at: do not answer that API, ever.
        change: of an answer's body, by API.
        always: answer what was not recorded, with an empty body.
        more: records in each log before the first recorded one.
    """

    def __init__(self, recording: Recording, **faults: Any) -> None:
        self.port = 0
        self.asked: list[tuple[int, bytes]] = []  # API, body
        self.open = 0
        self._close_at, self._silent_at = faults.get("close_at"), faults.get("silent_at")
        self._gone_after = faults.get("gone_after", sys.maxsize)
        self._change = faults.get("change", {})
        self._always = faults.get("always", False)
        self._answers: dict[tuple[int, bytes], deque[bytes]] = {}
        self._ranges: Any = None
        self._metadata: Any = None
        self._ends = first_appended(recording, recording.requests)
        self._more = faults.get("more", 0)
        for one in recording.requests:
            if one.response is None:
                continue
            key = (one.api_key, one.request.data[one.request.body_start :])
            self._answers.setdefault(key, deque()).append(one.response.data[one.response.body_start :])
            if one.api_key == ApiKey.API_VERSIONS:
                self._ranges = one.response.decode()
            if one.api_key == ApiKey.METADATA:
                self._metadata = one.response.decode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.open += 1
        while True:
            request = await frame_from(reader)
            api_key, version, _, size = unpack_from(">hhih", request)
            if api_key == self._close_at or len(self.asked) >= self._gone_after:
                return
            body = request[10 + max(size, 0) + (1 if request_header_version(api_key, version) > 1 else 0) :]
            self.asked.append((api_key, body))
            answer = self._answer(api_key, version, body)
            if answer is None and self._always:
                answer = b""
            if answer is None or api_key == self._silent_at:
                continue
            tags = b"\0" if response_header_version(api_key, version) else b""
            writer.write(answer_to(request, tags + self._change.get(api_key, bytes)(answer)))

    def _answer(self, api_key: int, version: int, body: bytes) -> bytes | None:
        queue = self._answers.get((api_key, body))
        if queue:
            return queue.popleft() if len(queue) > 1 else queue[0]
        message = known_message(Direction.RESPONSE, api_key)
        if api_key == ApiKey.API_VERSIONS:
            return message.encode(version, self._ranges)
        if api_key == ApiKey.METADATA:
            self._metadata.brokers[0].port = self.port
            return message.encode(version, self._metadata)
        if api_key == ApiKey.LIST_OFFSETS:  # replay's own, of the ends of the logs
            return message.encode(version, self._ends_of(version, body))
        return None

    def _ends_of(self, version: int, body: bytes) -> Any:
        """Logs that end where the first recorded Produce begins."""
        request = known_message(Direction.REQUEST, ApiKey.LIST_OFFSETS)
        answer = make("ListOffsetsResponse")
        asked: Any = request.decode(version, body)
        for topic in asked.topics:
            ends = [
                {"partition_index": index, "offset": self._ends.get((topic.name, index), -1) + self._more}
                for index in (one.partition_index for one in topic.partitions)
            ]
            answer.topics.append(
                make("ListOffsetsResponse", "ListOffsetsTopicResponse", name=topic.name, partitions=ends)
            )
        return answer


@contextlib.asynccontextmanager
async def before(broker: RecordedBroker) -> AsyncIterator[Cluster]:
    """The broker, as a cluster to replay to."""
    async with listening(broker.serve) as broker.port:
        yield await Cluster.connect(Address("127.0.0.1", broker.port), None, PATIENCE_S)


def replayed(recording: Recording, broker: RecordedBroker, options: Options = Options()) -> tuple[Plan, Result]:  # noqa: B008
    """Replay a recording to a broker, to its end."""

    async def work() -> tuple[Plan, Result]:
        async with before(broker) as cluster:
            plan = make_plan(recording, cluster)
            return plan, await Player(plan, options).play()

    return asyncio.run(asyncio.wait_for(work(), 120))

"""What tests of filters need: a connection through filters, an address map that says what it was asked, and a runtime."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.chain import Chain
from kproxy.filters.contract import (
    ClientMetric,
    ConnectionFacts,
    Direction,
    Filter,
    MetricsExport,
    Outcome,
    RequestFacts,
    Send,
    Verdict,
)
from kproxy.options import OtlpEndpoint, Rotated
from kproxy.protocol import known_message
from kproxy.schemas.store import Schemas
from tests.support.messages import answer_frame, answer_in, request_frame

Judge = Callable[[Any], Any]


class Served:
    """An AddressMap: brokers in *node_ids* (None: all above -1) are at proxy.example, 20000 and their id on."""

    def __init__(self, node_ids: Collection[int] | None = None, known: Collection[tuple[int, str, int]] = ()) -> None:
        self.node_ids = node_ids
        self.known_addresses = known
        self.asked: list[tuple[int, str, int]] = []

    def advertise(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        self.asked.append((node_id, host, port))
        served = node_id >= 0 if self.node_ids is None else node_id in self.node_ids
        return ours(node_id) if served else None

    def known(self, node_id: int, host: str, port: int, connection: ConnectionFacts) -> tuple[str, int] | None:
        return ours(node_id) if (node_id, host, port) in self.known_addresses else None


def ours(node_id: int) -> tuple[str, int]:
    """What Served gives for a node."""
    return "proxy.example", 20_000 + node_id % 40_000


def connection(addresses: Any = None) -> ConnectionFacts:
    """A connection between made-up addresses."""
    return ConnectionFacts(1, "default", "10.0.0.5:51234", "10.0.0.1:9092", "10.0.0.9:9092", addresses)


def responded(chain: Chain, at: ConnectionFacts, api_key: int, api_version: int, frame: bytes) -> Outcome:
    """The outcome of a response that no filter makes wait."""
    outcome = chain.on_response(at, RequestFacts(api_key, api_version, 7), frame)
    assert not isinstance(outcome, Awaitable)
    return outcome


def settled(outcome: Outcome | Awaitable[Outcome]) -> Outcome:
    """The outcome, awaited if a filter makes it wait."""

    if not isinstance(outcome, Awaitable):
        return outcome
    results: list[Outcome] = []

    async def wait() -> None:  # asyncio.run makes a text of its task, with the result: seconds for a large frame
        results.append(await outcome)

    asyncio.run(wait())
    return results[0]


class Bench:
    """A connection through filters: what its client asks, and what its broker answers."""

    def __init__(self, *filters: Filter, runtime: Any = None) -> None:
        self.runtime: Any = runtime or GivenRuntime()
        self.at = connection()
        self.frame = b""  # what was asked last
        self.use(*filters)

    def use(self, *filters: Filter) -> None:
        """Let frames pass these filters from now on."""
        self.filter: Any = filters[0]
        self.chain = Chain(filters, wait=asyncio.wait_for, runtime=self.runtime)

    def send(self, frame: bytes) -> Outcome:
        """What becomes of a request frame."""
        self.frame = frame
        return settled(self.chain.on_request(self.at, frame))

    def ask(self, name: str, version: int, /, correlation_id: int = 7, **values: Any) -> Outcome:
        """What becomes of a request."""
        return self.send(request_frame(name, version, correlation_id=correlation_id, **values))

    def answer(self, asked: RequestFacts, frame: bytes) -> Outcome:
        """What becomes of the response to a request."""
        return settled(self.chain.on_response(self.at, asked, frame))

    def answered(self, outcome: Outcome, /, **values: Any) -> Any:
        """What the client reads when the broker answers with *values* what was forwarded."""
        assert isinstance(outcome, Send) and outcome.request is not None
        asked = outcome.request
        codec = known_message(Direction.RESPONSE, asked.api_key)
        sent = self.answer(asked, answer_frame(codec.name, asked.api_version, **values))
        assert isinstance(sent, Send)
        return answer_in(asked.api_key, asked.api_version, sent.frame)

    def create(self, *names: str, correlation_id: int = 7) -> Outcome:
        """What becomes of CreateTopics."""
        return self.ask("CreateTopicsRequest", 7, correlation_id, topics=[{"name": name} for name in names])

    def produce(
        self, *topics: str, records: bytes | None = b"", index: int = 0, version: int = 9, **values: Any
    ) -> Outcome:
        """What becomes of a Produce with the same records for a partition of each topic."""
        data = [{"name": topic, "partition_data": [{"index": index, "records": records}]} for topic in topics]
        return self.ask("ProduceRequest", version, **{"acks": -1, "topic_data": data, **values})

    def fetch(self, records: bytes | None, topic: str, version: int = 12) -> Any:
        """The partition that a consumer reads where the broker has *records*; ``frame`` and ``given`` are what was sent."""
        partition = {"partition_index": 3, "high_watermark": 9, "records": records}
        told = {"partitions": [partition], "topic" if version < 13 else "topic_id": topic}
        self.frame = answer_frame("FetchResponse", version, responses=[told])
        outcome = self.answer(RequestFacts(1, version, 7), self.frame)
        assert isinstance(outcome, Send)
        self.given = outcome.frame
        return answer_in(1, version, self.given).responses[0].partitions[0]

    def counted(self) -> dict[tuple[str, str], int]:
        """By event and name."""
        return {(event, name): count.value for (_, event, name), count in self.runtime.counts.items()}


class Scripted(Filter):
    """A filter for tests: wants the API keys given, answers as *judge* says, and keeps what it was shown."""

    def __init__(
        self, judge: Judge, *, requests: Collection[int] = (), responses: Collection[int] = (), **attributes: Any
    ) -> None:
        self.judge = judge
        self.requests = requests
        self.responses = responses
        self.seen: list[tuple[Direction, Any]] = []
        for name, value in attributes.items():
            setattr(self, name, value)

    def on_request(self, request: Any) -> Verdict | Awaitable[Verdict]:
        self.seen.append((Direction.REQUEST, request))
        return self.judge(request)  # type: ignore[no-any-return]

    def on_response(self, response: Any) -> Verdict | Awaitable[Verdict]:
        self.seen.append((Direction.RESPONSE, response))
        return self.judge(response)  # type: ignore[no-any-return]


class GivenRuntime:
    """A Runtime whose time goes on by hand, or by sleeping, and whose journal is in memory; ``is_writable`` may be set."""

    def __init__(self) -> None:
        self.worker = 0
        self.cluster = "default"
        self.kept: dict[str, Any] = {}
        self.at = 1_000.0
        self.journals: dict[str, GivenJournal] = {}
        self.warnings: list[tuple[str, str]] = []
        self.counts: dict[tuple[str, str, str], GivenCount] = {}
        self.times: dict[str, GivenTimes] = {}
        self.given_schemas = Schemas()

    def schemas(self) -> Schemas:
        return self.given_schemas

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds

    def journal(self, file: Rotated) -> "GivenJournal":
        return self.journals.setdefault(file.path, GivenJournal())

    def require_journal(self, file: Rotated, is_required: bool) -> None:
        pass

    def shared_set(self, name: str) -> BoundedSet:
        found: BoundedSet = self.kept.setdefault(f"shared {name}", BoundedSet())
        return found

    def shared_count(self, filter_name: str, event: str, name: str) -> "GivenCount":
        return self.counts.setdefault((filter_name, event, name), GivenCount())

    def shared_times(self, name: str) -> "GivenTimes":
        return self.times.setdefault(name, GivenTimes())

    def show_client_metrics(
        self, client_id: str, instance_id: str, metrics: Sequence[ClientMetric], keep_s: float, **most: int
    ) -> None:
        raise AssertionError("no filter of these tests shows what clients measure")

    def export_metrics(self, filter_name: str, endpoint: OtlpEndpoint) -> MetricsExport:
        raise AssertionError("no filter of these tests exports metrics")

    def in_thread(self, function: Callable[[], Any]) -> Awaitable[Any]:
        raise AssertionError("no filter of these tests needs long")

    def warn(self, event: str, reason: str) -> None:
        self.warnings.append((event, reason))


class CallingRuntime(GivenRuntime):
    """A GivenRuntime for filters that need a thread: it makes their calls at once."""

    def in_thread(self, function: Callable[[], Any]) -> Awaitable[Any]:
        async def result() -> Any:
            return function()

        return result()


class GivenTimes:
    """SharedTimes of one process."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def move_on(self, name: str, seconds: float, now: float) -> float:
        self.at[name] = max(now, self.at.get(name, now)) + seconds
        return self.at[name]


class GivenCount:
    """A SharedCount of one process."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> int:
        self.value += amount
        return self.value


class GivenJournal:
    """A Journal in memory."""

    def __init__(self) -> None:
        self.seen = self.written = self.dropped = 0
        self.is_writable = True
        self.is_late = False
        self.lines: dict[int, bytes] = {}

    def take(self) -> int:
        self.seen += 1
        return self.seen

    def write(self, number: int, line: bytes) -> bool:
        if self.is_writable:
            self.lines[number] = line
            self.written += 1
        return self.is_writable

    def drop(self, number: int) -> None:
        self.dropped += 1

    def fields(self) -> list[dict[str, Any]]:
        """The lines as JSON."""
        return [json.loads(line) for line in self.lines.values()]

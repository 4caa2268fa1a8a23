"""What the analyzer counts of sessions, as AnalyzerCounts (messages.py). Bounded: names that come from traffic have at most
MOST_SERIES places, and one for all others.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kproxy.errors import DecodeError
from kproxy.output.bodies import NONZERO_ERROR, Bodies, count_errors
from kproxy.output.completeness import read_beginning
from kproxy.output.escaping import well_formed, word
from kproxy.output.text.body_fields import FetchResponse, ProduceRequest
from kproxy.output.text.body_fields import Topic as TopicFields
from kproxy.pipeline.output import Observer
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.proxy.messages import AnalyzerCounts
from kproxy.session import BadFrame, Event, Exchange, Frame, Gap, NotKafka, SaslToken

MOST_SERIES = 1_000
MOST_NAMES = (
    240_000  # bytes of JSON that the names of one counter take: all counters together fit one message (channel.py)
)
OTHER = "__other__"
MOST_GROUPS = 10_000
LONGEST_NAME = 64  # characters of a group's name
LARGEST_COUNTED = 4 * 1024 * 1024  # bytes of JSON that topics are looked up in

_produce = msgspec.json.Decoder(ProduceRequest)
_fetch = msgspec.json.Decoder(FetchResponse)


class BoundedCounter:
    """Counts by names from traffic; what comes after *most* names, or MOST_NAMES bytes of them, is counted as OTHER."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self._counts: dict[tuple[str, ...], int] = {}
        self._most = most
        self._room = MOST_NAMES

    def add(self, *name: str, n: int = 1) -> None:
        """Count *n* of a name."""
        counts = self._counts
        known = counts.get(name)
        if known is None and not self._has_room(name):
            name = (OTHER,) * len(name)
            known = counts.get(name)
        counts[name] = n + (known or 0)

    def _has_room(self, name: tuple[str, ...]) -> bool:
        """Whether another name fits; takes its room."""
        size = len(msgspec.json.encode([well_formed(part) for part in name])) + 24  # with a number
        if len(self._counts) >= self._most or size > self._room:
            return False
        self._room -= size
        return True

    def rows(self) -> list[Any]:
        """(*name, count) of each name; text that is no Unicode is escaped."""
        return [(*map(well_formed, name), count) for name, count in self._counts.items()]


class AnalysisCounts(Observer):
    """Counts events."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.frames = 0
        self.unanswered = 0
        self.events: Counter[type[Event]] = Counter()
        self.undecoded = BoundedCounter()
        self.trailing = BoundedCounter()
        self.cut = BoundedCounter()
        self.errors = BoundedCounter()
        self.topics = BoundedCounter()
        self.rebalances = BoundedCounter()
        self._generations: OrderedDict[str, int] = OrderedDict()
        self._names = {key: api.name for key, api in facts().apis.items()}
        self._by_api: dict[int | None, Callable[[Exchange, bytes | None, bytes | None], None]] = {
            ApiKey.PRODUCE: self._count_produced,
            ApiKey.FETCH: self._count_fetched,
            ApiKey.JOIN_GROUP: self._count_generation,
        }

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Count an event; with its bodies, if they were read for another output. Never raises for what the bytes hold."""
        if not isinstance(event, Exchange):
            self.events[type(event)] += 1
            return
        self.exchanges += 1
        self.frames += (event.request is not None) + (event.response is not None)
        if event.undecoded is not None or (bodies is not None and bodies.undecoded is not None):
            self.undecoded.add(self._name(event))
        for direction, frame in (("request", event.request), ("response", event.response)):
            if frame is not None and frame.trailing:
                self.trailing.add(self._name(event), direction)
            if frame is not None and frame.cut:
                self.cut.add(self._name(event), direction)
        if event.unanswered is not None:
            self.unanswered += 1
        response = _json(event.response, None if bodies is None else bodies.response)
        if response is not None and NONZERO_ERROR.search(response) is not None:
            for code in count_errors(response):
                self.errors.add(self._name(event), error_name(code))
        count = self._by_api.get(event.api_key)
        if count is not None:
            count(event, None if bodies is None else bodies.request, response)

    def message(self, at: int) -> AnalyzerCounts:
        """The counts of sessions; the caller adds the rest."""
        return AnalyzerCounts(
            at=at,
            exchanges=self.exchanges,
            frames=self.frames,
            undecoded=self.undecoded.rows(),
            trailing=self.trailing.rows(),
            cut=self.cut.rows(),
            unanswered=self.unanswered,
            errors=self.errors.rows(),
            topics=self.topics.rows(),
            rebalances=self.rebalances.rows(),
            gaps=self.events[Gap],
            bad_frames=self.events[BadFrame],
            not_kafka=self.events[NotKafka],
            sasl_tokens=self.events[SaslToken],
        )

    def _name(self, exchange: Exchange) -> str:
        return self._names.get(-1 if exchange.api_key is None else exchange.api_key, OTHER)

    def _count_produced(self, exchange: Exchange, request: bytes | None, response: bytes | None) -> None:
        body = _json(exchange.request, request)
        if body is not None and len(body) <= LARGEST_COUNTED:
            self._count_sizes("produce", _produce.decode(body).topicData, exchange)

    def _count_fetched(self, exchange: Exchange, request: bytes | None, response: bytes | None) -> None:
        if response is not None and len(response) <= LARGEST_COUNTED and b'ecordsSizeInBytes":' in response:
            self._count_sizes("fetch", _fetch.decode(response).responses, exchange)

    def _count_sizes(self, direction: str, topics: Iterable[TopicFields], exchange: Exchange) -> None:
        for topic in topics:
            size = sum(partition.size for partition in topic.all_partitions())
            if size:
                self.topics.add(topic.label(exchange.topic_names), direction, n=size)

    def _count_generation(self, exchange: Exchange, request: bytes | None, response: bytes | None) -> None:
        """Count a rebalance: a JoinGroup is answered with a generation that no earlier answer of its group had."""
        asked, answered = exchange.request_body(), exchange.response_body()
        if asked is None or answered is None or answered.error_code or answered.generation_id < 0:
            return
        group, generation = str(asked.group_id), int(answered.generation_id)
        known = self._generations.pop(group, None)
        self._generations[group] = generation
        if len(self._generations) > MOST_GROUPS:
            self._generations.popitem(last=False)
        if known != generation:
            self.rebalances.add(word(group, LONGEST_NAME))


def _json(frame: Frame | None, body: bytes | None) -> bytes | None:
    """The body, if it was read or can be; of a cut one what is here."""
    if body is not None or frame is None or frame.message is None or frame.error is not None:
        return body
    if frame.cut:
        return read_beginning(frame).json
    try:
        return frame.to_json()
    except DecodeError:
        return None

"""Throttle: delay clients above a rate as brokers do with quotas: throttle_time_ms, and a muted connection (KIP-13, KIP-219)."""

import functools
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from msgspec import Meta

from kproxy.filters.contract import (
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Replace,
    Request,
    Response,
    SharedTimes,
    Verdict,
    Want,
)
from kproxy.filters.fetching import FetchedTopics
from kproxy.filters.named_resources import schema_fields
from kproxy.options import Options, Seconds, Size, text
from kproxy.protocol import ApiKey
from kproxy.protocol.facts import facts

STATE = "throttle"
FETCHED = "throttle fetched"
Rate = Annotated[float, Meta(gt=0, le=1_000_000_000)]
UNTHROTTLED = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
WITH_RECORDS = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH}
THROTTLE_TIME = "ThrottleTimeMs"


class Limit(Options, frozen=True):
    """A limit for each client id, principal or topic that matches."""

    by: Annotated[Literal["client_id", "principal", "topic"], text("What each has a limit of its own.")]
    match: Annotated[str, text('Those it is for, by name or pattern ("batch-*").')] = "*"
    produce_bytes: Annotated[Size | None, text("Bytes of records produced in a second; null: no limit.")] = None
    fetch_bytes: Annotated[Size | None, text("Bytes of records fetched in a second; null: no limit.")] = None
    requests: Annotated[
        Rate | None,
        text("Requests in a second: of topic those of Produce and Fetch, else all but logins; null: no limit."),
    ] = None

    def __post_init__(self) -> None:
        if self.produce_bytes is None and self.fetch_bytes is None and self.requests is None:
            raise ValueError("it limits nothing: write produce_bytes, fetch_bytes or requests")


class ThrottleOptions(Options, frozen=True):
    """Options of throttle."""

    limits: Annotated[
        Annotated[tuple[Limit, ...], Meta(min_length=1)],
        text("All limits that match apply. A rate is that of all workers of this kproxy together."),
    ]
    burst: Annotated[Seconds, text("For how long of its rate a client may be faster after a pause.")] = 1.0
    longest: Annotated[Seconds, text("The longest that a client is told to wait at a time.")] = 30.0


class Meter:
    """A rate for each name: a token bucket, kept as the time at which it is full, which moves on by what is taken.

    Args:
        rate: per second.
        burst: how many seconds of the rate the full bucket holds.
        name: of this meter among all.
    """

    def __init__(self, rate: float, burst: float, name: str) -> None:
        self._rate = rate
        self._burst = burst
        self._name = name

    def take(self, times: SharedTimes, name: str, amount: float, now: float) -> float:
        """Take *amount*, even if the bucket has less; return the seconds to wait until it would have been there."""
        full_at = times.move_on(f"{self._name} {name}", amount / self._rate, now)
        return max(0.0, full_at - now - self._burst)


class Throttle(Filter):
    """Limit bytes and requests per second by client id, principal or topic, as brokers do with quotas.

    A client that is too fast gets its response at once, with the time to wait in throttle_time_ms, and its next requests are not
    read before that time is over. Where the version of a response has no such field the response is delayed instead. What is
    produced or fetched above the rate is passed, and waited for afterwards. A Fetch asks for all topics of its session, if it
    names them or not. Frames above limits.held_frame_size pass; their whole size is counted for the client and the principal, and
    nothing for topics, which are not read.
    """

    name = "throttle"
    identifies = True
    Options = ThrottleOptions

    def __init__(self, options: ThrottleOptions) -> None:
        self.options = options
        by_client = any(limit.requests is not None and limit.by != "topic" for limit in options.limits)
        everything = frozenset(facts().apis) - UNTHROTTLED
        self.requests = self.responses = everything if by_client else frozenset(WITH_RECORDS)
        self.names_topics = any(limit.by == "topic" for limit in options.limits)
        self.timeout = options.longest + 10.0
        self._limits = [(limit, _meters(limit, number, options.burst)) for number, limit in enumerate(options.limits)]
        self._times: SharedTimes

    def on_start(self) -> None:
        """Continue with what clients have taken so far, through any worker."""
        self._times = self.runtime.shared_times(self.name)

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Forward frames that are too large to be held; ``on_too_large`` counts their size."""
        return Want.PASS

    def on_too_large(
        self, connection: ConnectionFacts, direction: Direction, api_key: int, api_version: int, size: int
    ) -> None:
        """Count the size of a frame that is not held for its client and principal; its topics are not known."""
        kinds = {"requests", "produce"} if direction == Direction.REQUEST else {"fetch"}
        counts = (
            api_key == ApiKey.PRODUCE if direction == Direction.REQUEST else api_key in WITH_RECORDS - {ApiKey.PRODUCE}
        )
        wait = self._take(connection, _client_id(connection), {None: size if counts else 0}, kinds)
        connection.mute_s = max(connection.mute_s, wait)

    def on_request(self, request: Request) -> Verdict:
        """Count the request and what it produces."""
        message: Any = request.message
        topics = _sizes(message.topic_data, "partition_data") if request.api_key == ApiKey.PRODUCE else {}
        if request.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) and self.names_topics:
            fetched: FetchedTopics = request.connection.state.setdefault(FETCHED, FetchedTopics())
            topics = {name or topic_id: 0 for name, topic_id in fetched.note(request)}
        wait = self._take(request.connection, request.client_id, topics, {"requests", "produce"})
        if not wait:
            return Forward()
        # Mute now, not with the response: clients send several requests at once, and a broker reads none while it has one
        request.connection.mute_s = max(request.connection.mute_s, wait)
        if request.api_key != ApiKey.PRODUCE or message.acks != 0:
            request.kept[STATE] = wait
        return Forward()

    def on_response(self, response: Response) -> Verdict | Any:
        """Count the bytes fetched. If the client is too fast, set throttle_time_ms, or delay a response that lacks the field."""
        message: Any = response.message
        request, connection = response.request, response.connection
        wait: float = request.kept.pop(STATE, 0.0)
        if request.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            topics = _sizes(message.responses, "partitions")
            fetched = self._take(connection, request.client_id or _client_id(connection), topics, {"fetch"})
            connection.mute_s, wait = max(connection.mute_s, fetched), max(wait, fetched)
        if not wait:
            return Forward()
        if not _has_throttle_time(request.api_key, request.api_version):
            return self._delay(wait)
        throttle_ms = max(message.throttle_time_ms, round(wait * 1_000))
        if throttle_ms == message.throttle_time_ms:
            return Forward()
        message.throttle_time_ms = throttle_ms
        return Replace(message)

    async def _delay(self, seconds: float) -> Verdict:
        await self.runtime.sleep(seconds)
        return Forward()

    def on_close(self, connection: ConnectionFacts) -> None:
        """Forget the fetch sessions of the connection."""
        connection.state.pop(FETCHED, None)

    def _take(
        self, connection: ConnectionFacts, client_id: str | None, topics: dict[Any, int], kinds: set[str]
    ) -> float:
        """Take from all limits that match; return the longest wait in seconds."""
        if client_id is not None:
            connection.state[f"{STATE} client id"] = client_id
        names = {"client_id": client_id or "", "principal": connection.principal or ""}
        by_name = self._named(topics) if self.names_topics else {}
        now = self.runtime.monotonic()
        longest = 0.0
        for limit, meters in self._limits:
            shares = by_name if limit.by == "topic" else {names[limit.by]: sum(topics.values())}
            for name, size in shares.items():
                for kind in kinds & meters.keys() if fnmatchcase(name, limit.match) else ():
                    longest = max(
                        longest, meters[kind].take(self._times, name, 1.0 if kind == "requests" else size, now)
                    )
        return min(longest, self.options.longest)

    def _named(self, topics: dict[Any, int]) -> dict[str, int]:
        """Return the sizes by topic name; a topic whose id no Metadata response has named yet goes by its id."""
        return {self.topic_names.get(key, key): size for key, size in topics.items() if key is not None}


def _meters(limit: Limit, number: int, burst: float) -> dict[str, Meter]:
    """Make the meters of a limit. What was taken still counts after a reload, unless the limit has changed."""
    rates = {"produce": limit.produce_bytes, "fetch": limit.fetch_bytes, "requests": limit.requests}
    return {
        kind: Meter(rate, burst, f"{number} {limit.by} {limit.match} {kind} {rate:g}")
        for kind, rate in rates.items()
        if rate is not None
    }


def _sizes(topics: Any, partitions: str) -> dict[Any, int]:
    """Return bytes of records by topic."""
    sizes: dict[Any, int] = {}
    for topic in topics:
        size = sum(len(partition.records or b"") for partition in getattr(topic, partitions))
        sizes[_key(topic)] = sizes.get(_key(topic), 0) + size
    return sizes


def _key(topic: Any) -> str:
    """Return the name of a topic, or its id."""
    return str(getattr(topic, "name", None) or getattr(topic, "topic", None) or getattr(topic, "topic_id", ""))


def _client_id(connection: ConnectionFacts) -> str | None:
    client_id: str | None = connection.state.get(f"{STATE} client id")
    return client_id


@functools.cache
def _has_throttle_time(api_key: int, api_version: int) -> bool:
    fields = schema_fields(api_key, api_version, of_response=True)
    return any(field.name == THROTTLE_TIME and api_version in field.versions for field in fields)

"""Chain: which frames its filters want, and running held frames and tails through them."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from struct import pack, unpack_from

from kproxy.errors import DecodeError, KproxyError, UsageError
from kproxy.filters.addresses import withheld_tail
from kproxy.filters.contract import (
    Close,
    ConnectionFacts,
    Direction,
    Edited,
    Filter,
    Outcome,
    RequestFacts,
    Runtime,
    Send,
    Verdict,
    Want,
)
from kproxy.filters.fetching import FETCHES, LimitFetches, limiting
from kproxy.filters.identify import accept, identifying, note_token
from kproxy.filters.narrow_api_versions import NarrowApiVersions, is_known, is_refused, oldest_accepted, refused_version
from kproxy.filters.passage import LARGE, Hook, InThread, Kind, Passage, Unusable, kind_of, topics_in
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.filters.single_topic import FIELDS, RecentTopics
from kproxy.protocol import (
    ApiKey,
    facts,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.constants import FRAME_LIMIT, SIZE_FIELD

OnFault = Callable[[str, Hook, Kind], None]
# Awaits at most so many seconds: asyncio.wait_for
Wait = Callable[[Awaitable[Verdict | Edited], float], Awaitable[Verdict | Edited]]

HELD_FRAME_SIZE = 16_777_216  # limits.held_frame_size where the configuration has none
SMALLEST_REQUEST = 12  # size, api_key, api_version, correlation_id
LARGEST_SIZE = 0x7FFFFFFF  # the largest value of a size field
BUILT_IN = (NarrowApiVersions, RewriteAddresses, LimitFetches)  # filters that kproxy adds itself
WANTS_BY_STRENGTH = (Want.PASS, Want.TAIL, Want.HEAD, Want.HOLD)  # no response is both TAIL and HEAD
ONE_BATCH = ": a batch of records is that large; set it to twice the largest message.max.bytes of the topics"
# APIs whose messages have credentials, values of settings, or records, which the text of an exception may repeat
CONFIDENTIAL = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ENVELOPE,
    )
)
_log = logging.getLogger("kproxy.filters")


async def wait_without_limit(pending: Awaitable[Verdict | Edited], seconds: float) -> Verdict | Edited:
    """Await without a time limit. This is the default, as there is no clock here; a worker passes asyncio.wait_for."""
    return await pending


class FilterNotStarted(UsageError):
    """A filter refuses the configuration when it is started; ``filter`` is that filter."""

    def __init__(self, filter_: Filter, sentence: str) -> None:
        super().__init__(sentence)
        self.filter = filter_


class Chain:
    """The filters of a virtual cluster in a worker. Requests go through them first to last, responses last to first.

    If one of them is ``required``, NarrowApiVersions is put before them; behind them LimitFetches, if one needs complete Fetch
    responses, and Identify, if one needs to know clients or topic ids; there it is the first to see responses. ``faults``
    counts by the name of the filter.

    Args:
        filters: in order.
        wait: awaits a verdict for at most so many seconds, else raises TimeoutError: asyncio.wait_for.
        most_frame_size: the largest frame a filter may make, size field excluded.
        held_frame_size: the largest frame that is held: limits.held_frame_size.
        in_thread: calls a function without holding up other connections, to decode large frames (kproxy.proxy.codec_thread).
            None: they are decoded like any other.
        on_fault: called at every fault with the name of the filter, the method that it came in, and its kind.
        clock: nanoseconds, for the time that filters take; by default that is not measured.
        runtime: what filters get as ``Filter.runtime``; then ``Filter.on_start`` of each is called. Raises what that raises.
    """

    def __init__(
        self,
        filters: Iterable[Filter],
        *,
        wait: Wait = wait_without_limit,
        most_frame_size: int = FRAME_LIMIT,
        held_frame_size: int = HELD_FRAME_SIZE,
        in_thread: InThread | None = None,
        on_fault: OnFault = lambda name, hook, kind: None,
        clock: Callable[[], int] = lambda: 0,
        runtime: Runtime | None = None,
    ) -> None:
        listed = tuple(filters)
        self.narrows = any(filter_.required or filter_.refuses or filter_.oldest_versions for filter_ in listed)
        first = (NarrowApiVersions(listed),) if self.narrows else ()
        self.filters: tuple[Filter, ...] = (*first, *listed, *limiting(listed, held_frame_size), *identifying(listed))
        for filter_ in self.filters:
            filter_.most_frame_size = most_frame_size
        self.wait = wait
        self.most_frame_size = most_frame_size
        self.in_thread = in_thread
        self.on_fault = on_fault
        self.clock = clock
        self._times: dict[str, list[int]] = {}  # by name of the filter: ns, calls
        self.faults: Counter[str] = Counter()
        self._topics = RecentTopics()
        self._filters_for: dict[tuple[Direction, int, int], tuple[Filter, ...]] = {}
        self._filters_of_parts: dict[tuple[Want, int, int], tuple[Filter, ...]] = {}
        if runtime is not None:
            self._start(runtime)

    def _start(self, runtime: Runtime) -> None:
        """Start every filter; if one refuses, those that were started are stopped."""
        started: list[Filter] = []
        try:
            for number, filter_ in enumerate(self.filters):
                filter_.runtime, filter_.later = runtime, self.filters[number + 1 :]
                started.append(filter_)
                filter_.on_start()
        except Exception as error:
            for filter_ in started:
                self._stop(filter_)
            if isinstance(error, UsageError):
                raise FilterNotStarted(started[-1], str(error)) from error
            raise

    def stop(self) -> None:
        """Call ``on_stop`` of every filter; what they raise is counted and logged."""
        for filter_ in self.filters:
            self._stop(filter_)

    def _stop(self, filter_: Filter) -> None:
        try:
            filter_.on_stop()
        except Exception as error:
            self.note_fault(filter_, "on_stop", "the end of its use", error)

    @property
    def fails_closed(self) -> bool:
        """Whether a filter that kproxy has not put there itself must not be bypassed."""
        return any(not filter_.fails_open for filter_ in self.filters if not isinstance(filter_, BUILT_IN))

    def forget_wants(self) -> None:
        """Call ``wants`` of the filters again, as one changed its mind. The forwarding plan has to be made again, too."""
        self._filters_for.clear()
        self._filters_of_parts.clear()

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want:
        if not is_known(api_key, api_version):
            return self.unknown(direction, api_key)
        if direction == Direction.REQUEST and api_version < oldest_accepted(self.filters, api_key):
            return Want.REFUSE
        return _strongest(filter_.wants(direction, api_key, api_version) for filter_ in self.filters)

    def wanted_unkept(self, api_key: int, api_version: int) -> Want:
        """Return what to do with a response to whose request ``on_request`` gave no RequestFacts."""
        if not is_known(api_key, api_version):
            return self.unknown(Direction.RESPONSE, api_key)
        filters = [one for one in self.filters if api_key not in one.responses_to_kept]
        return _strongest(one.wants(Direction.RESPONSE, api_key, api_version) for one in filters)

    def awaits(self, request: RequestFacts) -> bool:
        """Return whether the response to a request is held, if any may be: a filter wants it, whatever its request was."""
        about = Direction.RESPONSE, request.api_key, request.api_version
        filters = self.filters_for(*about)
        if not any(request.api_key in one.responses_to_kept for one in filters):
            return True
        return any(one.wants(*about) is Want.HOLD and _wants_kept(one, request) for one in filters)

    def unknown(self, direction: Direction, api_key: int) -> Want:
        """Return what to do with frames of an API, or at a version, that is not in the facts."""
        if self.narrows and api_key == ApiKey.API_VERSIONS and direction == Direction.RESPONSE:
            return Want.HOLD  # held, as its list of versions could not be narrowed
        return Want.REFUSE if is_refused(self.filters, api_key) else Want.PASS

    def table(self, direction: Direction) -> dict[tuple[int, int], Want]:
        """Return (api_key, api_version) -> Want for everything in the facts."""
        message_of = request_message if direction == Direction.REQUEST else response_message
        messages = ((api_key, message_of(api_key)) for api_key in facts().apis)
        pairs = ((api_key, version) for api_key, message in messages if message for version in message.versions)
        return {pair: self.wanted(direction, *pair) for pair in pairs}

    def when_too_large_to_hold(self, direction: Direction, api_key: int, api_version: int, size: int = 0) -> Want:
        """Return what to do with a HOLD frame above limits.held_frame_size: PASS, HEAD, TAIL, or REFUSE (close the connection).

        It is a fault of every filter that needs the complete frame; REFUSE unless all of these fail open. *size*: for the log.
        """
        wants = [(filter_, _wants_of_large(filter_, direction, api_key, api_version)) for filter_ in self.filters]
        blind = [filter_ for filter_, want in wants if want is Want.HOLD]
        is_fetched = direction == Direction.RESPONSE and api_key in FETCHES
        for filter_ in blind:
            self.note_fault(
                filter_,
                "on_request" if direction == Direction.REQUEST else "on_response",
                f"{direction} of api_key {api_key}, version {api_version}",
                f"it has {size} bytes, more than limits.held_frame_size{ONE_BATCH if is_fetched else ''}",
                kind="too_large",
            )
        if not all(filter_.fails_open for filter_ in blind):
            return Want.REFUSE
        return _strongest(want for _, want in wants if want is not Want.HOLD)

    def refuse_large(
        self, connection: ConnectionFacts, request: RequestFacts, edits: list[str] | None = None
    ) -> Outcome | Awaitable[Outcome] | None:
        """Return the error that the client gets in place of a response that is too large; None: it is only disconnected.

        The error has passed the filters that the response would have met after the one that needs the complete response.
        *edits*: as in ``on_request``.
        """
        filters = iter(self.filters_for(Direction.RESPONSE, request.api_key, request.api_version))
        about = (Direction.RESPONSE, request.api_key, request.api_version)
        for filter_ in filters:
            if not filter_.fails_open and _wants_of_large(filter_, *about) is Want.HOLD:
                return Passage(self, connection, Direction.RESPONSE, request, b"", filters, edits).refuse(filter_)
        return None

    def note_too_large(
        self, connection: ConnectionFacts, direction: Direction, api_key: int, api_version: int, size: int
    ) -> None:
        """Tell the filters that want a frame that it passes, too large to be held."""
        for filter_ in self.filters_for(direction, api_key, api_version):
            if filter_.wants(direction, api_key, api_version) is Want.HOLD:
                try:
                    filter_.on_too_large(connection, direction, api_key, api_version, size)
                except Exception as error:
                    self.note_fault(filter_, "on_too_large", f"a large {direction} of api_key {api_key}", error)

    def on_request(
        self, connection: ConnectionFacts, frame: bytes, edits: list[str] | None = None
    ) -> Outcome | Awaitable[Outcome]:
        """Run a whole request frame, size field included, through the filters that want it.

        What filters of the configuration do to it is added to *edits* in words: "request changed by mask".
        """
        if len(frame) < SMALLEST_REQUEST:
            return Close(f"a request of {len(frame)} bytes has no header")
        api_key, api_version, correlation_id = unpack_from(">hhi", frame, 4)
        if not is_known(api_key, api_version):
            return self._unknown(Direction.REQUEST, api_key, api_version, frame)
        if api_version < oldest_accepted(self.filters, api_key):
            return Close(f"api_key {api_key}, version {api_version}: a filter accepts no such request")
        request = RequestFacts(api_key, api_version, correlation_id)
        return self._pass(connection, Direction.REQUEST, request, frame, edits)

    def on_response(
        self, connection: ConnectionFacts, request: RequestFacts, frame: bytes, edits: list[str] | None = None
    ) -> Outcome | Awaitable[Outcome]:
        """Run a whole response frame, size field included, through the filters that want it, last to first; *edits*: as there."""
        api_key, api_version = request.api_key, request.api_version
        if not is_known(api_key, api_version):
            return self._unknown(Direction.RESPONSE, api_key, api_version, frame)
        return self._pass(connection, Direction.RESPONSE, request, frame, edits)

    def _pass(
        self,
        connection: ConnectionFacts,
        direction: Direction,
        request: RequestFacts,
        frame: bytes,
        edits: list[str] | None,
    ) -> Outcome | Awaitable[Outcome]:
        filters = self._wanting(connection, direction, request, frame)
        if not filters:
            return Send(frame)
        topics = None
        if any(map(_chooses_topics, filters)) or len(frame) > LARGE:
            topics = topics_in(direction, request, frame)
        if topics is not None:
            if not any(_wants_any(one, direction, request, *topics) for one in filters):
                return Send(frame)
            if not topics[2]:
                filters = self._without_tails(direction, request, filters)
        return Passage(self, connection, direction, request, frame, filters, edits, has_records=topics is not None).go()

    def _without_tails(
        self, direction: Direction, request: RequestFacts, filters: tuple[Filter, ...]
    ) -> tuple[Filter, ...]:
        """Return the filters without those that take tails, as the frame has none."""
        about = direction, request.api_key, request.api_version
        return tuple(one for one in filters if one.wants(*about) is not Want.TAIL)

    def _wanting(
        self, connection: ConnectionFacts, direction: Direction, request: RequestFacts, frame: bytes
    ) -> tuple[Filter, ...]:
        def on_fault(filter_: Filter, error: Exception) -> None:
            self.note_fault(filter_, "wants_frame", f"a {direction} of api_key {request.api_key}", error)

        filters = self.filters_for(direction, request.api_key, request.api_version)
        return wanting(filters, connection, direction, request, frame, on_fault)

    def looks_at_topics(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Return whether ``wanted_of`` may say another Want than ``wanted``."""
        return (direction, api_key) in FIELDS and all(
            map(_chooses_topics, self._holding(direction, api_key, api_version))
        )

    def wanted_of(self, direction: Direction, api_key: int, api_version: int, beginning: bytes) -> Want:
        """Return what the filters want of a frame of a known API and version that begins with these bytes."""
        holding = self._holding(direction, api_key, api_version)
        found = self._topics.find(direction, api_key, api_version, beginning)
        name = None if found is None else found.name or self._name_of(found.topic_id)
        if name is None or any(_wants_topic(filter_, name) for filter_ in holding):
            return Want.HOLD
        filters = self.filters_for(direction, api_key, api_version)
        return _strongest(f.wants(direction, api_key, api_version) for f in filters if f not in holding)

    def _name_of(self, topic_id: str) -> str | None:
        name: str | None = self.filters[0].topic_names.get(topic_id)
        return name

    def _holding(self, direction: Direction, api_key: int, api_version: int) -> list[Filter]:
        filters = self.filters_for(direction, api_key, api_version)
        return [one for one in filters if one.wants(direction, api_key, api_version) is Want.HOLD]

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes | None:
        """Run the head of a response, size field included, through the filters.

        Returns what to send in its place, whose size field is that of the whole response then; None: close the connection.
        """
        try:
            header = response_header_version(request.api_key, request.api_version)
            start = SIZE_FIELD + read_response_header(head, header, SIZE_FIELD).size
        except DecodeError as error:
            return self._unread_head(request, head, error)
        before = body = head[start:]
        for filter_ in self._filters_of_part(request, Want.HEAD):
            began = self.clock()
            try:
                changed = filter_.on_head(connection, request.copy(), body)
                if not isinstance(changed, bytes):
                    raise Unusable("on_head must return bytes")
                body = changed
            except Exception as error:
                self.note_fault(
                    filter_,
                    "on_head",
                    f"the beginning of a response of api_key {request.api_key}",
                    error,
                    api_key=request.api_key,
                )
                if not filter_.fails_open:
                    return None
            self.note_time(filter_, began)
        if body == before:
            return head
        size = int.from_bytes(head[:SIZE_FIELD], "big") + len(body) - len(before)
        return pack(">i", size) + head[SIZE_FIELD:start] + body if size <= LARGEST_SIZE else None

    def _unread_head(self, request: RequestFacts, head: bytes, error: DecodeError) -> bytes | None:
        """Note that no filter can read a head; return it if all of them fail open."""
        filters = self._filters_of_part(request, Want.HEAD)
        for filter_ in filters:
            self.note_fault(filter_, "on_head", f"the beginning of a response of api_key {request.api_key}", error)
        return head if all(filter_.fails_open for filter_ in filters) else None

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Run the tail of a response (addresses.tail_start) through the filters; return exactly ``len(tail)`` bytes."""
        size = len(tail)
        for filter_ in self._filters_of_part(request, Want.TAIL):
            began = self.clock()
            try:
                changed = filter_.on_tail(connection, request.copy(), tail)
                if not isinstance(changed, bytes) or len(changed) != size:
                    raise Unusable(f"on_tail must return exactly {size} bytes")
            except Exception as error:
                self.note_fault(
                    filter_,
                    "on_tail",
                    f"the end of a response of api_key {request.api_key}",
                    error,
                    api_key=request.api_key,
                )
                changed = tail if filter_.fails_open else withheld_tail(request.api_key, request.api_version, size)
            tail = changed
            self.note_time(filter_, began)
        return tail

    def on_token(self, connection: ConnectionFacts, token: bytes | None) -> None:
        """Note who logs in by raw SASL tokens; None: requests follow, as the broker has accepted the client."""
        if not any(filter_.identifies for filter_ in self.filters):
            return
        if token is None:
            accept(connection)
            self.note_login(connection, True)
        elif note_token(connection, token):
            self.note_login(connection, False)

    def note_login(self, connection: ConnectionFacts, is_accepted: bool) -> None:
        """Tell the filters that a client begins to log in without requests that they see, or that it has been accepted."""
        for filter_ in self.filters:
            try:
                filter_.on_raw_login(connection, is_accepted)
            except Exception as error:
                self.note_fault(
                    filter_, "on_raw_login", "a login by raw SASL tokens", error, api_key=ApiKey.SASL_AUTHENTICATE
                )

    def on_close(self, connection: ConnectionFacts) -> None:
        """Call ``on_close`` of every filter; what they raise is counted and logged."""
        for filter_ in self.filters:
            try:
                filter_.on_close(connection)
            except Exception as error:
                self.note_fault(filter_, "on_close", "the end of a connection", error)

    def filters_for(self, direction: Direction, api_key: int, api_version: int) -> tuple[Filter, ...]:
        """Return the filters that want frames of a known API and version, in the order they run."""
        key = (direction, api_key, api_version)
        filters = self._filters_for.get(key)
        if filters is None:
            want_it = [f for f in self.filters if f.wants(direction, api_key, api_version) is not Want.PASS]
            filters = self._filters_for[key] = tuple(want_it if direction == Direction.REQUEST else reversed(want_it))
        return filters

    def _filters_of_part(self, request: RequestFacts, part: Want) -> tuple[Filter, ...]:
        """Return the filters that take the HEAD or the TAIL of a response, or do so because all of it is too large."""
        key = (part, request.api_key, request.api_version)
        takers = self._filters_of_parts.get(key)
        if takers is None:
            response = (Direction.RESPONSE, request.api_key, request.api_version)
            filters = self.filters_for(*response)
            takers = tuple(filter_ for filter_ in filters if _wants_of_large(filter_, *response) is part)
            self._filters_of_parts[key] = takers
        return takers

    def filters_passed(self, filter_: Filter, api_key: int, api_version: int) -> tuple[Filter, ...]:
        """Return the filters for a response that *filter_* made: those that its request has passed."""
        passed = set(map(id, self.filters[: self.filters.index(filter_)]))
        return tuple(f for f in self.filters_for(Direction.RESPONSE, api_key, api_version) if id(f) in passed)

    def note_edit(self, edits: list[str], filter_: Filter, what: str) -> None:
        """Add to *edits* what a filter did to a message, unless kproxy has put the filter there itself."""
        if not isinstance(filter_, BUILT_IN):
            edits.append(f"{what} by {name_of(filter_)}")

    def note_time(self, filter_: Filter, began: int, calls: int = 1) -> None:
        """Note that a filter has returned; *began*: by the clock, when it was called. Of a verdict that came later: 0 calls."""
        times = self._times.setdefault(name_of(filter_), [0, 0])
        times[0] += self.clock() - began
        times[1] += calls

    def take_times(self) -> dict[str, list[int]]:
        """Return the nanoseconds and calls of each filter since the last call, by name."""
        taken, self._times = self._times, {}
        return taken

    def note_fault(
        self,
        filter_: Filter,
        hook: Hook,
        event: str,
        fault: Exception | str,
        *,
        kind: Kind | None = None,
        api_key: int | None = None,
    ) -> None:
        """Count a fault; log the first, tenth, hundredth ... of a filter.

        Args:
            filter_, hook, event, fault: which one failed, in which of its methods, on what, and how.
            kind: of the fault; by default that of the exception.
            api_key: of the message that the filter was given, if it was given one.
        """
        name = name_of(filter_)
        self.faults[name] += 1
        self.on_fault(name, hook, kind or (kind_of(fault) if isinstance(fault, Exception) else "unusable"))
        times = self.faults[name]
        if str(times).strip("0") == "1":
            closes = (
                "its addresses are withheld" if hook == "on_tail" else "the client gets an error, or is disconnected"
            )
            end = "traffic passes it by" if filter_.fails_open else closes
            reason = fault if isinstance(fault, str) else _in_short(fault, api_key in CONFIDENTIAL)
            _log.warning("filter %s failed on %s: %s; %s (fault %d)", name, event, reason, end, times)

    def _unknown(self, direction: Direction, api_key: int, api_version: int, frame: bytes) -> Outcome:
        match self.unknown(direction, api_key):
            case Want.HOLD:
                return Send(refused_version(frame))
            case Want.REFUSE:
                return Close(f"api_key {api_key} at version {api_version}: a required filter cannot read it")
        return Send(frame)


def name_of(filter_: Filter) -> str:
    return filter_.name or type(filter_).__name__


def _wants_of_large(filter_: Filter, direction: Direction, api_key: int, api_version: int) -> Want:
    """Return which part a filter takes of a frame above limits.held_frame_size; HOLD: it needs the complete frame."""
    want = filter_.wants(direction, api_key, api_version)
    if want is not Want.HOLD:
        return want
    part = filter_.wants_of_large(direction, api_key, api_version)
    return Want.HOLD if part is None else part


def _strongest(wants: Iterable[Want]) -> Want:
    return max(wants, key=WANTS_BY_STRENGTH.index, default=Want.PASS)


def _in_short(error: Exception, is_confidential: bool) -> str:
    """Return the error on one line with the line of code that raised it; its text only if that cannot repeat secrets."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    is_safe = not is_confidential or isinstance(error, KproxyError)
    text = ascii(str(error))[:300] if is_safe else "its text is withheld, as it may be that of a credential or a record"
    return f"{type(error).__name__}({text}){where}"


def wanting(
    filters: tuple[Filter, ...],
    connection: ConnectionFacts,
    direction: Direction,
    request: RequestFacts,
    frame: bytes,
    on_fault: Callable[[Filter, Exception], None],
) -> tuple[Filter, ...]:
    """Return those of *filters* that want the frame, in their order.

    Args:
        filters: those that want its API and version in this direction.
        connection, direction, request: those of the frame. The client id of a request is read from the frame.
        frame: complete, size field included.
        on_fault: called with what a filter raises; that filter gets the frame.
    """
    if direction == Direction.RESPONSE:
        filters = tuple(one for one in filters if _wants_kept(one, request))
    if not any(_chooses_frames(filter_) for filter_ in filters):
        return filters
    if direction == Direction.REQUEST:
        try:
            request.client_id = read_request_header(frame, SIZE_FIELD).client_id
        except DecodeError:  # a fault of each filter that wants to read it
            return filters
    wanted = []
    for filter_ in filters:
        try:
            if _chooses_frames(filter_) and not filter_.wants_frame(connection, direction, request.copy()):
                continue
        except Exception as error:
            on_fault(filter_, error)
        wanted.append(filter_)
    return tuple(wanted)


def _wants_kept(filter_: Filter, request: RequestFacts) -> bool:
    return request.api_key not in filter_.responses_to_kept or filter_.name in request.kept


def _chooses_topics(filter_: Filter) -> bool:
    return type(filter_).wants_topic is not Filter.wants_topic


def _wants_topic(filter_: Filter, topic: str) -> bool:
    try:
        return filter_.wants_topic(topic)
    except Exception:  # what it raises is a fault once it has the message
        return True


def _wants_any(
    filter_: Filter, direction: Direction, request: RequestFacts, names: set[str], ids: set[str], has_tail: bool
) -> bool:
    """Return whether a filter wants a frame that has records of these topics, or cannot know yet.

    One that takes tails has nothing to do where no tagged fields are in them.
    """
    try:
        if not _chooses_topics(filter_):
            return has_tail or filter_.wants(direction, request.api_key, request.api_version) is not Want.TAIL
        known = [filter_.topic_names.get(one) for one in ids]
        return None in known or any(map(filter_.wants_topic, (*names, *known)))
    except Exception:  # what it raises is a fault once it has the message
        return True


def _chooses_frames(filter_: Filter) -> bool:
    return type(filter_).wants_frame is not Filter.wants_frame

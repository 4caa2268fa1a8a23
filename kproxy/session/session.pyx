# cython: language_level=3, nonecheck=True, auto_pickle=False
"""Session: decode one connection. It pairs requests with responses and reports what happens as events.

stream.pyx finds where frames begin, sasl.py which frames are raw SASL tokens, and recognise.py explains other protocols. The
state of a session consists of its two streams, its SaslPhase and InFlight; all transitions start here:

    from a stream                what the session does
    a request frame              A raw token if the SaslPhase says so, else a request: its exchange goes into InFlight; Produce
                                 with acks=0 is reported immediately. A first frame of another protocol: NotKafka, both streams
                                 stop. A frame that is not a request: BadFrame, the stream hunts
    a response frame             InFlight is empty: BadFrame (or, once bytes are missing, an exchange without its request).
                                 The head is a token: this is the broker's token, unless the phase is over and the correlation
                                 id is that of the first request: then the tokens before it stay unanswered and are dropped.
                                 The head has its correlation id: the pair is reported. Else InFlight.find: entries before the
                                 match are reported as unanswered
    a size no frame has          At the start, bytes of another protocol: NotKafka, both streams stop. Else BadFrame, and it hunts
    a hunt ended                 Gap with the number of skipped bytes

    from the caller              what the session does
    gap, inside a frame          Gap if the bytes are missing in the capture. The frame becomes a cut one and is handled when its
                                 end was due: by its header, or by its bytes so far
    gap, any other               Gap, and the stream hunts, unless complete frames were left out on purpose. From here on the
                                 session is *lossy*: a response without a request, or out of order, is not the broker's fault
    end, of one side             its incomplete last frame becomes a cut frame
    end, of the broker, or RST   all requests in flight are reported as unanswered, because of who sent FIN or RST first
    close                        the same; both streams stop. No events follow

Every request frame ends in exactly one exchange, SaslToken, BadFrame or NotKafka; every exchange is reported exactly once.
"""

from collections import deque

from libc.stdint cimport int64_t

from kproxy.protocol.direction cimport DIRECTION_REQUEST, DIRECTION_RESPONSE
from kproxy.protocol.headers cimport read_request_header, read_response_header, RequestHeader, ResponseHeader
from kproxy.session.exchanges cimport (
    BEGIN_SASL, Exchange, FOLLOW_SASL, Frame, InFlight, LEARN_SOFTWARE, NOTE_UNANSWERED, Route, route_of,
)
from kproxy.session.stream cimport FrameBuffer, HUNTING, OPAQUE, SKIPPING, Stream

from kproxy.errors import DecodeError, Malformed, Truncated
from kproxy.protocol import ApiKey, Direction
from kproxy.session.endings import before_response, CAPTURE_ENDED, who_closed
from kproxy.session.cluster import ClusterView
from kproxy.session.endings import Cut
from kproxy.session.events import BadFrame, Connection, Gap, Note, NotKafka
from kproxy.session.exchanges import beginning_of_request, correlation_id_of, Event, failed, is_refusal, peeked
from kproxy.session.learning import Learning
from kproxy.session.limits import Limits
from kproxy.session.request_hunting import RequestHunt
from kproxy.session.response_hunting import ResponseHunt
from kproxy.session.recognise import foreign_request, foreign_size, may_be_newer
from kproxy.session.sasl import AUTHENTICATING, is_of_authentication, SaslPhase, token_event

_TOO_OLD = "the broker skipped it, as those before 0.10 do, which do not know ApiVersions"
_CLOSED_ON_API_VERSIONS = "; those before 0.10 do so, as they do not know ApiVersions"
_BROKER_CLOSED = [who_closed(Direction.RESPONSE, reset=reset) for reset in (False, True)]
_ACKS_NOT_HERE = "whether it is answered at all is not known: its acks are not in the capture"
_LATER_ANSWERED_FIRST = "the response to a later request came first, where brokers answer in the order of the requests"
_MOST_OVERTAKEN = 64
cdef int _MOST_EDITS = 64  # of a message
_IDS = 8  # bytes of a request's header up to the end of its correlation id
cdef int MISSING = Cut.MISSING
cdef int SNAPLEN = Cut.SNAPLEN
cdef dict _NO_NAMES = {}  # shared by all exchanges without topic ids; never written to
# Bytes that may be a password are never shown, not even as a number.
_NO_REQUEST_BUT_TOKEN = "no request where authentication is not done; it may be a SASL token, so nothing in it is shown"
_NO_SASL_AUTHENTICATE = "the body is not laid out so; it may hold a SASL token, so nothing in it is shown"
_ONE_SIDED_FROM = 2  # unanswered requests from which on the broker's direction counts as not recorded
cdef tuple _DIRECTIONS = tuple(Direction)
_NO_BYTE_OF_BROKER = "nothing the broker sent is in the capture: was only one direction recorded?"


cdef class Session:
    """Decodes one connection: bytes with their times go in, events come out. Never raises for any bytes.

    Args:
        number: the connection's number in events.
        client, broker: addresses as "address:port".
        cluster: shared with other connections to the same cluster; by default a new view.
        limits: the most that the connection may use.
        from_start: whether the first bytes here are the connection's first, for both directions or as (requests, responses);
            if not, the session searches for the first plausible frame.
        is_kafka: whether this is known to be Kafka, so that an unreadable first request still counts as a request.
    """

    def __init__(
        self, *, number: int, client: str, broker: str, cluster: ClusterView | None = None,
        limits: Limits | None = None, from_start: bool | tuple[bool, bool] = True, is_kafka: bool = False,
    ) -> None:
        self._is_kafka = is_kafka
        self.connection = Connection(number, client, broker)
        self.cluster = ClusterView() if cluster is None else cluster
        self.limits = Limits() if limits is None else limits
        self._requests = self._stream(Direction.REQUEST)
        self._responses = self._stream(Direction.RESPONSE)
        self._in_flight = InFlight(self.limits)
        self._learning = Learning(self.connection, self.cluster, self.limits.fetch_partitions)
        self._sasl = SaslPhase()
        starts = from_start if isinstance(from_start, tuple) else (from_start, from_start)
        self._from_start = starts
        self._lossy = not all(starts)
        self._passed_over = [None, None]
        self._edits = [None, None]
        self._overtaken = deque(maxlen=_MOST_OVERTAKEN)
        for stream in [one for one in (self._requests, self._responses) if not self._from_start[one.direction]]:
            stream.hunt()

    def _stream(self, direction: Direction):
        is_request = direction == Direction.REQUEST
        return Stream(
            direction,
            FrameBuffer(self.limits.frame_size),
            owner=self,
            handle=self._on_request if is_request else self._on_response,
            new_hunt=self._hunt_requests if is_request else self._hunt_responses,
        )

    cpdef list receive(self, int direction, bytes data, int64_t at, int64_t sent_at=0):  # type: (...) -> list[Event]
        """Receive the next bytes of a direction; *at* in ns since the epoch.

        *sent_at*: when a proxy had forwarded the frames that end in these bytes; 0: unknown; -1: the proxy made them itself.
        """
        cdef list events = []
        if data is None:
            raise TypeError("expected bytes, not None")
        if direction == DIRECTION_REQUEST:
            self._requests.receive(data, at, events)
        else:
            self._broker_seen = True
            self._responses.receive(data, at, events)
        if sent_at:
            for event in events:
                if type(event) is Exchange:
                    _note_sent(<Exchange>event, direction, sent_at)
            if direction == DIRECTION_REQUEST:
                self.note_sent(direction, sent_at)
        return events

    def note_sent(self, int direction, int64_t sent_at) -> None:
        """Set when a proxy had forwarded the latest requests, for those whose time was unknown."""
        cdef Exchange exchange
        if direction == DIRECTION_RESPONSE:
            return
        for entry in reversed(self._in_flight.queue):
            exchange = (<tuple>entry)[0]
            if exchange is not None:
                if exchange.request.sent_at:
                    return
                exchange.request.sent_at = sent_at

    def note_edit(self, int direction, edit: str) -> None:
        """Note in words what a proxy does to the message that ends next in a direction: Frame.edits."""
        cdef list known = self._edits[direction]
        if known is None:
            known = self._edits[direction] = []
        if len(known) < _MOST_EDITS:
            known.append(edit)

    def gap(self, int direction, size: int | None, int64_t at, int cut=MISSING) -> list[Event]:
        """Note that *size* bytes (None: an unknown number) are missing, for the reason *cut* (Cut)."""
        events = []
        cdef Stream stream = self._requests if direction == DIRECTION_REQUEST else self._responses
        if stream.state == OPAQUE or size == 0:
            return events
        if stream.state == HUNTING:
            self._finish_hunt(stream, size if cut == SNAPLEN else 0, at, events)
        lost = stream.loses_frames(size, cut)
        if lost:
            self._lossy = True
        if lost or cut == MISSING:
            self._sasl.on_gap()
            hit = 1 if stream.unfinished and stream.state != SKIPPING else 0
            gap = Gap(self.connection, at, _DIRECTIONS[direction], size, 0, hit, Cut(cut), not lost)
            self._report_gap(gap, events)
        if stream.state != HUNTING:
            stream.miss(size, at, cut, events)
        return events

    def _finish_hunt(self, Stream stream not None, unrecorded: int, at: int, events: list[Event]) -> None:
        """End a hunt at a gap; its bytes may be the beginning of a frame that the gap cuts."""
        self._goes_on = unrecorded > 0
        found = stream.finish(at, events, unrecorded)
        self._goes_on = False
        if found:
            self._report_passed_over(stream.direction, events)
        else:
            stream.hunt()

    def _report_gap(self, gap: Gap, events: list[Event]) -> None:
        """Report a gap; merge the gaps of consecutive packets that a snaplen cut and in which no frame begins."""
        known = self._passed_over[gap.direction]
        if gap.cut is not Cut.SNAPLEN:
            self._report_passed_over(gap.direction, events)
            events.append(gap)
        elif known is None:
            self._passed_over[gap.direction] = gap
        else:
            known.size += gap.size

    def _report_passed_over(self, int direction, list events) -> None:
        if self._passed_over[direction] is not None:
            events.append(self._passed_over[direction])
            self._passed_over[direction] = None

    def end(self, int direction, int64_t at, reset_by: int | None = None) -> list[Event]:
        """End a direction: its side sent FIN, or the side *reset_by* (a direction) sent an RST.

        After the broker's FIN, or an RST, no request is answered any more.
        """
        events = []
        if self.connection.closed is None:
            by = direction if reset_by is None else reset_by
            self.connection.closed = who_closed(_DIRECTIONS[by], reset=reset_by is not None)
        cdef Stream stream = self._requests if direction == DIRECTION_REQUEST else self._responses
        self._end_stream(stream, at, events)
        if direction == DIRECTION_RESPONSE:
            self._give_up_all(self._why_at_end(CAPTURE_ENDED), at, events)
        return events

    def close(self, int64_t at, ended: str | None = None) -> list[Event]:
        """End the session, as nothing more will arrive: report unanswered requests.

        *ended* says in words how the connection ended without a FIN or RST; by default, the capture ended.
        """
        events = []
        self._end_stream(self._requests, at, events)
        self._end_stream(self._responses, at, events)
        self._give_up_all(self._why_at_end(CAPTURE_ENDED if ended is None else ended), at, events)
        if self._skipped and not self._requests.frames.count and not self._from_start[DIRECTION_REQUEST]:
            what = "no Kafka request is in what was captured of the connection, which began before the capture"
            events.append(NotKafka(self.connection, at, "unknown", Direction.REQUEST, what))
        self._requests.stop()  # session and streams refer to each other no more, so nothing waits for the garbage collection
        self._responses.stop()
        return events

    def _why_at_end(self, ended: str) -> str:
        """Return why requests in flight are unanswered.

        Several requests without any byte of the broker mean that its direction was not recorded: a real client would have waited.
        """
        by_broker = self.connection.closed in _BROKER_CLOSED
        if not self._broker_seen and not by_broker and len(self._in_flight.queue) >= _ONE_SIDED_FROM:
            return _NO_BYTE_OF_BROKER
        why = before_response(self.connection.closed or ended)
        first = self._in_flight.queue[0][0] if self._in_flight.queue and by_broker and not self._broker_seen else None
        return why if first is None or first.api_key != ApiKey.API_VERSIONS else why + _CLOSED_ON_API_VERSIONS

    # Calls from the streams

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        """See stream.Owner."""
        direction = stream.direction
        size = int.from_bytes(size_field, "big", signed=True)
        foreign = foreign_size(size_field, direction) if self._at_start(stream, 0) else None
        if foreign is not None:
            self._stop(foreign, at, events)
            return
        self._lossy = True
        most = f"of at most {stream.frames.limit:,} bytes"
        why = " before authentication is done" if stream.frames.limit < self.limits.frame_size else ""
        said = "is of no frame" if self._sasl.may_be_token else f"says {size:,}"
        events.append(BadFrame(self.connection, at, direction, f"the size field {said}; frames are {most}{why}"))

    def _at_start(self, Stream stream not None, frames: int) -> bool:
        """Return whether the direction is known from its start and has cut exactly that many frames so far."""
        return self._from_start[stream.direction] and stream.frames.count == frames and stream.state != HUNTING

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        """See stream.Owner."""
        self._skipped += skipped
        passed_over = self._passed_over[stream.direction]
        if passed_over is not None:
            passed_over.skipped += skipped
        elif skipped and self._goes_on:
            self._passed_over[stream.direction] = Gap(
                self.connection, at, stream.direction, 0, skipped, cut=Cut.SNAPLEN
            )
        elif skipped:
            events.append(Gap(self.connection, at, stream.direction, 0, skipped))
        if not self._goes_on:
            self._report_passed_over(stream.direction, events)

    def _hunt_requests(self, given_up: int) -> Hunt:
        last = self._in_flight.queue[-1][0] if self._in_flight.queue else None
        known = None if last is None else (last.client_id, last.correlation_id)
        self._request_hunt = RequestHunt(self.limits.frame_size, given_up, last=known)
        return self._request_hunt

    def _hunt_responses(self, given_up: int) -> Hunt:
        return ResponseHunt(self.limits.frame_size, given_up, self._sought)

    def _sought(self) -> list[tuple[int, Route | None]]:
        """Return which responses a hunt may find: those to requests in flight, and to candidates for requests."""
        known = self._in_flight.sought()
        return known + self._request_hunt.sought() if self._requests.state == HUNTING else known

    cdef void _take_edits(self, Frame frame, int direction) noexcept:
        if self._edits[direction] is not None:
            frame.edits = self._edits[direction]
            self._edits[direction] = None

    # Requests

    def _on_request(self, Frame frame not None, list events not None):
        cdef RequestHeader header
        cdef Route route
        cdef Exchange exchange
        cdef bint may_be_token
        self._take_edits(frame, DIRECTION_REQUEST)
        if frame.cut_code:
            self._on_cut_request(frame, events)
            return
        may_be_token = self._sasl.may_be_token
        if may_be_token and self._sasl.in_tokens and self._is_token(frame):
            self._on_client_token(frame, events)
            return
        try:
            header = read_request_header(frame.data)
        except DecodeError as error:
            self._on_bad_request(frame, str(error), events)
            return
        route = route_of(header.api_key, header.api_version)
        if may_be_token and self._sasl.may_be_token and not self._is_past_tokens(header, frame):
            self._on_bad_request(frame, _NO_REQUEST_BUT_TOKEN, events)
            return
        if route is None and not may_be_newer(header):
            self._on_bad_request(frame, f"API key {header.api_key} v{header.api_version} is none of Kafka's", events)
            return
        frame.header = header
        frame.body_start = header.size
        exchange = self._begin_exchange(frame, header)
        if route is None:
            exchange.undecoded = f"API key {header.api_key} is not known"
        else:
            route.read_request(frame)
            if (frame.error is not None or frame.trailing) and not self._on_unreadable_body(route, exchange, events):
                return
            if route.request_step and not self._request_step(route, frame, exchange, events):
                return
        if self._in_flight.add(exchange, route, len(frame.data)):
            self._shed(frame.ended_at, events)

    cdef Exchange _begin_exchange(self, Frame frame, RequestHeader header):
        cdef Exchange exchange = Exchange.__new__(Exchange)
        exchange.connection = self.connection
        exchange.at = frame.ended_at
        exchange.api_key = header.api_key
        exchange.api_version = header.api_version
        exchange.correlation_id = header.correlation_id
        exchange.client_id = header.client_id
        exchange.request = frame
        exchange.expects_response = True
        exchange.topic_names = _NO_NAMES
        return exchange

    def _is_past_tokens(self, header: RequestHeader, Frame frame) -> bool:
        """Return whether a frame is a request although a token is possible; one that needs authentication ends the phase."""
        if not is_of_authentication(header, frame):
            return False
        if header.api_key not in AUTHENTICATING:  # so authentication is done, even if it was not captured
            self._sasl.leave()
            self._lift_limit()
        return True

    def _on_unreadable_body(self, Route route, Exchange exchange, list events) -> bool:
        """Handle a request with an unreadable body, or bytes after it; return False if it is another protocol."""
        cdef Frame frame = exchange.request
        if frame.error is not None and route.response_step == FOLLOW_SASL:
            frame.error = Malformed(_NO_SASL_AUTHENTICATE, message=route.name, version=route.api_version)
        if frame.error is not None:
            exchange.undecoded = f"request: {frame.error}"
        if not self._is_kafka and self._at_start(self._requests, 1) and (foreign := foreign_request(frame.data)):
            self._stop(foreign, frame.ended_at, events)
            return False
        return True

    def _request_step(self, Route route, Frame frame, Exchange exchange, list events) -> bool:
        """Do what some APIs need in addition to pairing; return False if the exchange is complete without a response."""
        if route.request_step == LEARN_SOFTWARE:
            named = self._learning.from_api_versions(route, frame)
            if frame.error is not None and named:
                frame.unread = True  # until the response shows that the broker read the body
                exchange.undecoded = None
            return True
        if frame.message is None:
            self._lossy |= route.request_step == NOTE_UNANSWERED  # whether it is answered is unknown
            return True
        if route.request_step == NOTE_UNANSWERED:
            if route.expects_response(frame):
                return True
            exchange.expects_response = False
            self._learning.name_topics(route, exchange)
            events.append(exchange)
            return False
        if route.request_step == BEGIN_SASL:
            self._learning.from_handshake(frame)
            if self._sasl.on_handshake(route.api_version, exchange.client_id):
                self._requests.frames.limit = self.limits.unauthenticated_frame_size
        return True

    def _on_cut_request(self, Frame frame, list events) -> None:
        """Handle a request without its end, by its header or the part of the header that was recorded."""
        cdef Route route
        cdef Exchange exchange
        if self._sasl.in_tokens and self._is_token(frame):
            self._on_client_token(frame, events)
            return
        api_key, api_version, correlation_id, client_id = beginning_of_request(frame.data)
        try:
            frame.header = read_request_header(frame.data)
        except Truncated:
            pass  # the cut is inside it
        except DecodeError as error:
            self._on_bad_request(frame, str(error), events)
            return
        route = None if api_version is None else route_of(api_key, api_version)
        if self._sasl.may_be_token and not self._is_cut_request(route, frame):
            self._on_bad_request(frame, _NO_REQUEST_BUT_TOKEN, events)
            return
        if route is None and api_version is not None and not (frame.header is not None and may_be_newer(frame.header)):
            self._on_bad_request(frame, f"API key {api_key} v{api_version} is none of Kafka's", events)
            return
        frame.body_start = len(frame.data) if frame.header is None else frame.header.size
        exchange = Exchange(self.connection, frame.ended_at, api_key, api_version, correlation_id, client_id, frame)
        exchange.topic_names = _NO_NAMES
        if route is None:
            exchange.undecoded = None if api_key is None else f"API key {api_key} is not known"
        elif frame.header is not None:
            route.read_request(frame)
        if route is not None and not self._cut_request_step(route, frame, exchange, events):
            return
        if self._in_flight.add(exchange, route, len(frame.data)):
            self._shed(frame.ended_at, events)

    def _is_cut_request(self, Route route, Frame frame) -> bool:
        """As ``_is_past_tokens``; with a cut header, a known API at a known version (00 xx 00 yy) is not a token."""
        if frame.header is not None:
            return self._is_past_tokens(frame.header, frame)
        return route is not None and len(frame.data) >= _IDS and route.api_version in route.request.versions

    def _cut_request_step(self, Route route, Frame frame, Exchange exchange, list events) -> bool:
        """As ``_request_step``, for a cut body."""
        if route.request_step == LEARN_SOFTWARE:
            self._learning.from_api_versions(route, frame)
        elif route.request_step == NOTE_UNANSWERED and peeked(frame, "acks") == 0:
            exchange.expects_response = False
            self._learning.name_topics(route, exchange)
            events.append(exchange)
            return False
        elif route.request_step == BEGIN_SASL and self._sasl.on_handshake(route.api_version, exchange.client_id):
            self._requests.frames.limit = self.limits.unauthenticated_frame_size
        return True

    def _on_bad_request(self, frame: Frame, reason: str, events: list[Event]) -> None:
        first = self._at_start(self._requests, 1)
        if first and self._sasl.begins_with_token(frame.data):
            self.connection.sasl_mechanism = "GSSAPI"
            self._requests.frames.limit = self.limits.unauthenticated_frame_size
            self._on_client_token(frame, events)
            return
        foreign = foreign_request(frame.data) if first and not self._is_kafka else None
        if foreign is not None:
            self._stop(foreign, frame.ended_at, events)
            return
        self._lossy = True
        said = _NO_REQUEST_BUT_TOKEN if self._sasl.may_be_token else f"no request: {reason}"
        events.append(BadFrame(self.connection, frame.ended_at, Direction.REQUEST, said))
        self._requests.lose(frame)

    def _shed(self, at: int, events: list[Event]) -> None:
        """Report the oldest requests as unanswered while too much is in flight."""
        while self._in_flight.overfull:
            self._lossy = True
            why = "more requests are in flight than kproxy keeps" if self._broker_seen else _NO_BYTE_OF_BROKER
            self._give_up(why, at, events)

    # Responses

    def _on_response(self, Frame frame not None, list events not None):
        cdef Exchange exchange
        cdef Route route
        cdef ResponseHeader header
        self._take_edits(frame, DIRECTION_RESPONSE)
        queue = self._in_flight.queue
        if not queue:
            self._on_response_without_request(frame, events)
            return
        exchange, route = queue[0]
        if frame.cut_code and exchange is not None:
            self._on_unexpected_response(frame, events)
            return
        if exchange is None:
            if not self._sasl.in_tokens and self._in_flight.skips_tokens(frame):
                self._in_flight.drop_tokens()  # the last token gets no answer
                self._on_response(frame, events)
            else:
                self._on_server_token(frame, events)
            return
        try:
            header = read_response_header(frame.data, 0 if route is None else route.response_header_version)
        except DecodeError as error:
            self._on_unreadable_header(frame, error, events)
            return
        if header.correlation_id != exchange.correlation_id:
            self._on_unexpected_response(frame, events)
            return
        self._in_flight.take()
        frame.header = header
        frame.body_start = header.size
        self._finish(exchange, route, frame, events)

    def _on_unreadable_header(self, frame: Frame, error: DecodeError, events: list[Event]) -> None:
        """Handle a response whose header is damaged behind its correlation id, which may still pair it."""
        exchange, _ = self._in_flight.queue[0]
        if exchange is None or correlation_id_of(frame.data) != exchange.correlation_id:
            self._on_unexpected_response(frame, events)
            return
        self._in_flight.take()
        frame.error = error
        exchange.undecoded = f"response header: {error}"
        self._finish(exchange, None, frame, events)

    cdef int _finish(self, Exchange exchange, Route route, Frame frame, list events) except -1:
        """Read the body of a response after its header, and report the exchange."""
        exchange.response = frame
        exchange.at = frame.ended_at
        self._answered = exchange.correlation_id
        self._answered_by = route
        if frame.cut_code and not self._read_cut_header(route, frame):
            route = None
        if route is not None:
            route.read_response(frame)
            if route.request_step == LEARN_SOFTWARE and exchange.request is not None:
                self._judge_api_versions(exchange, exchange.request, frame)
            if frame.error is not None:
                said = f"response: {frame.error}"
                exchange.undecoded = said if exchange.undecoded is None else f"{exchange.undecoded}; {said}"
            if route.learns:
                self._learning.from_exchange(route, exchange)
                self._response_step(route, frame)
        events.append(exchange)
        return 0

    def _read_cut_header(self, Route route, Frame frame) -> bool:
        """Read the header of a cut response; return False if the cut is inside it."""
        frame.body_start = len(frame.data)
        try:
            frame.header = read_response_header(frame.data, 0 if route is None else route.response_header_version)
        except DecodeError:
            return False
        frame.body_start = frame.header.size
        return True

    def _judge_api_versions(self, Exchange exchange, Frame request, Frame response):
        """Decide by the response whether the broker read the request's body."""
        request.unread = is_refusal(response)
        error = None if request.unread else request.error
        exchange.undecoded = None if error is None else f"request: {error}"

    def _response_step(self, route: Route, frame: Frame) -> None:
        if route.response_step == BEGIN_SASL and failed(frame):
            self._sasl.on_refusal()
        elif route.response_step == FOLLOW_SASL and not failed(frame):
            self._sasl.leave()
            self._lift_limit()

    def _on_unexpected_response(self, frame: Frame, events: list[Event]) -> None:
        """Handle a response that is cut or out of order: its request is further back in the queue, or missing."""
        index = self._find_request(frame)
        if index is None:
            self._on_response_without_request(frame, events)
            return
        self._skip_to(index, frame, events)
        exchange, route = self._in_flight.take()
        if exchange is not None:
            if exchange.correlation_id is None:
                exchange.correlation_id = correlation_id_of(frame.data)
            self._finish(exchange, route, frame, events)

    def _find_request(self, Frame frame) -> int | None:
        """Return the index of the request that a response answers; if the correlation id is cut, the order decides."""
        head = self._in_flight.queue[0][0]
        if frame.cut_code and correlation_id_of(frame.data) is None:
            return 0 if head is not None and _begins_answer(frame.data, head.correlation_id) else None
        index = self._in_flight.find(frame)
        return 0 if index is None and head is not None and head.correlation_id is None else index

    def _skip_to(self, index: int, frame: Frame, events: list[Event]) -> None:
        why = "its response is missing: the one to a later request came first" if self._lossy else _LATER_ANSWERED_FIRST
        skipped = [entry for entry, _ in zip(self._in_flight.queue, range(index), strict=False)]
        if not self._lossy and not all(_may_be_skipped(*entry) for entry in skipped):
            reason = _in_another_order(self._in_flight.queue[index][0], [exchange for exchange, _ in skipped])
            events.append(BadFrame(self.connection, frame.ended_at, Direction.RESPONSE, reason))
            self._overtaken.extend(exchange.correlation_id for exchange, _ in skipped if exchange is not None)
        for exchange, route in skipped:
            if not self._lossy and _may_be_unanswered(exchange, route):
                exchange.expects_response = False  # no response is missing, so this one had acks=0
            unknown = not self._lossy and exchange is not None and exchange.api_key == ApiKey.API_VERSIONS
            self._give_up(_TOO_OLD if unknown else why, frame.ended_at, events)

    def _on_response_without_request(self, frame: Frame, events: list[Event]) -> None:
        """Handle a response to no request in flight; it may confirm a candidate of the hunt for requests."""
        if self._requests.state == HUNTING and self._requests.confirm(frame, events):
            self._on_response(frame, events)
            return
        try:
            header = read_response_header(frame.data, 0)
        except DecodeError as error:
            reason = f"no response: {error}"
            events.append(BadFrame(self.connection, frame.ended_at, Direction.RESPONSE, reason))
            return
        if header.correlation_id == self._answered:
            api = "an unknown" if self._answered_by is None else self._answered_by.name.removesuffix("Request")
            what = f"a second answer to {api} request {self._answered}, which was answered before"
            events.append(Note(self.connection, frame.ended_at, Direction.RESPONSE, what))
            return
        if header.correlation_id in self._overtaken:
            self._overtaken.remove(header.correlation_id)
            what = f"the response to request {header.correlation_id} came too late: that to a later request came before it"
            events.append(BadFrame(self.connection, frame.ended_at, Direction.RESPONSE, what))
            return
        if not self._lossy:
            reason = (
                f"a response with correlation id {header.correlation_id}, which no request in flight has: "
                "the request may be missing in the capture"
            )
            events.append(BadFrame(self.connection, frame.ended_at, Direction.RESPONSE, reason))
            return
        frame.header = header
        frame.body_start = header.size
        exchange = Exchange(self.connection, frame.ended_at, correlation_id=header.correlation_id, response=frame)
        exchange.undecoded = "its request was not seen, so nothing says how to read the response"
        events.append(exchange)

    # Tokens

    def _is_token(self, Frame frame) -> bool:
        if not self._sasl.ends_with(frame.data, cut=frame.cut_code != 0):
            return True
        self._sasl.leave()
        self._lift_limit()
        return False

    def _on_client_token(self, frame: Frame, events: list[Event]) -> None:
        if not self._broker_seen:
            self._sasl.on_gap()  # a client sends its next token after the broker's, so that one is missing
        events.append(token_event(self.connection, Direction.REQUEST, frame))
        if self._in_flight.add_token():
            self._shed(frame.ended_at, events)

    def _on_server_token(self, frame: Frame, events: list[Event]) -> None:
        self._in_flight.take()
        self._sasl.on_server_token()
        self._lift_limit()
        events.append(token_event(self.connection, Direction.RESPONSE, frame))

    def _lift_limit(self) -> None:
        # After a successful step the next frame may be the first ordinary request; nothing on the wire says so earlier.
        self._requests.frames.limit = self.limits.frame_size

    # Endings

    def _stop(self, foreign: Foreign, at: int, events: list[Event]) -> None:
        self._requests.stop()
        self._responses.stop()
        self._give_up_all(foreign.what, at, events)
        events.append(NotKafka(self.connection, at, foreign.kind, foreign.direction, foreign.what))

    def _give_up(self, why: str, at: int, events: list[Event]) -> None:
        """Report the oldest request in flight as unanswered."""
        exchange, route = self._in_flight.take()
        if exchange is None:
            return
        exchange.at = at
        if exchange.expects_response:
            exchange.unanswered = _ACKS_NOT_HERE if _may_be_unanswered(exchange, route) else why
        if route is not None:
            self._learning.name_topics(route, exchange)
        events.append(exchange)

    def _give_up_all(self, why: str, at: int, events: list[Event]) -> None:
        while self._in_flight.queue:
            self._give_up(why, at, events)

    def _end_stream(self, Stream stream not None, at: int, events: list[Event]) -> None:
        if stream.state == OPAQUE:
            return
        known = self.connection.closed is not None
        why = Cut.RESET if known else Cut.CAPTURE_ENDED
        held = stream.end(at, why, events)
        if held:  # bytes of an incomplete size field
            events.append(Gap(self.connection, at, stream.direction, 0 if known else None, held, 1, why))


def _in_another_order(answered: Exchange, skipped: list[Exchange | None]) -> str:
    """Return a sentence about a response that came before those to earlier requests."""
    ids = [str(one.correlation_id) for one in skipped if one is not None]
    earlier = f"request {ids[0]}, which was" if len(ids) == 1 else f"{len(skipped)} requests that were"
    return f"the response to request {answered.correlation_id} came before that to {earlier} sent earlier: brokers answer in order"


def _begins_answer(data: bytes, correlation_id: int | None) -> bool:
    """Return whether a response that is cut inside its correlation id may have this one."""
    return correlation_id is None or correlation_id.to_bytes(4, "big", signed=True).startswith(data)


def _may_be_skipped(exchange: Exchange | None, route: Route | None) -> bool:
    """Return whether a correct broker may skip a request: a cut Produce (perhaps acks=0), or ApiVersions before Kafka 0.10."""
    return _may_be_unanswered(exchange, route) or (exchange is not None and exchange.api_key == ApiKey.API_VERSIONS)


def _may_be_unanswered(exchange: Exchange | None, route: Route | None) -> bool:
    """As Route.may_be_unanswered, for an entry of InFlight."""
    return exchange is not None and route is not None and route.may_be_unanswered(exchange.request)


cdef void _note_sent(Exchange exchange, int direction, int64_t sent_at) noexcept:
    cdef Frame frame = exchange.request if direction == DIRECTION_REQUEST else exchange.response
    if frame is not None and frame.sent_at == 0:
        frame.sent_at = sent_at
    if sent_at < 0 and exchange.request is not None:
        exchange.request.sent_at = 0  # the proxy made the response: the broker never had the request

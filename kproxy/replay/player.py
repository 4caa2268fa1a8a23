"""Player: sends the requests of a plan, matches answers to them, learns ids from both answers, and compares.

A recorded connection is one connection here for each node that it goes to, opened at its first request and closed after its last.
One that breaks is opened again for the next request.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kproxy.errors import DecodeError, EncodeError, UpstreamError
from kproxy.protocol import ApiKey, response_message
from kproxy.protocol.structs import struct_types
from kproxy.replay.answered_ids import learn_ids
from kproxy.replay.assigned import HEARTBEATS, Assigned, go_on
from kproxy.replay.comparing import NOT_READY, Comparison, compare, error_codes_of
from kproxy.replay.fetch_sessions import FetchSessions
from kproxy.replay.fetched import Fetched
from kproxy.replay.generations import Generations
from kproxy.replay.identities import Identities, Place
from kproxy.replay.joining import hears_later, join_anew
from kproxy.replay.link import Link, LinkClosed, decode_answer, is_answered
from kproxy.replay.order import Order
from kproxy.replay.plan import Plan
from kproxy.replay.preparing import prepare
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.reshaping import FIRST_OF_SEVERAL, OF_ANSWERS, several
from kproxy.replay.result import Outcome, Result
from kproxy.replay.routing import Router
from kproxy.replay.share_sessions import ShareSessions, acquires_later
from kproxy.replay.syncing import held_together, sent_together
from kproxy.replay.versions import Encoded, Unsendable, encode_at, name_topics

MOST_IN_FLIGHT = 1_000  # requests, of all connections
MOST_SILENT = 20  # requests without an answer in a row, after which the cluster is taken to be away
RETRY_S = 0.1
REBALANCE_S = 1.0  # until a heartbeat is told of one
RETRIES_S = 10.0  # for one request whose recorded answer was ready


@dataclass(frozen=True)
class Options:
    """How to replay."""

    speed: float | None = None  # times as fast as recorded; None: as fast as it goes
    timeout: float = 30.0  # seconds, for each answer


class Ready(NamedTuple):
    """A request for the new broker."""

    body: Any  # decoded, its ids replaced
    encoded: Encoded


@dataclass
class _Way:
    """Of a recorded connection to one node."""

    node: int | None = None
    link: Link | None = None
    unconfirmed: bool = False  # a request without an answer was sent, which may not have been processed yet


def _encoded_again(recorded: Recorded, ready: Ready) -> Ready:
    """A request whose body was changed after its answer."""
    message = recorded.request.message
    assert message is not None
    return Ready(ready.body, Encoded(ready.encoded.version, message.encode(ready.encoded.version, ready.body)))


@dataclass
class Player:
    """One replay; ``play`` once. ``result`` is right at any moment."""

    plan: Plan
    options: Options = Options()
    progress: Callable[[int], None] = lambda sent: None
    result: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        recording = self.plan.recording
        self.identities = Identities(recording.names, nodes=self.plan.nodes)
        self._ways: dict[ConnectionId, dict[int | None, _Way]] = {}
        self._left: dict[ConnectionId, int] = {}  # requests that are still to be sent
        self._unconfirmed: dict[ConnectionId, list[_Way]] = {}
        self._produced_again: set[int] = set()  # numbers of the Produce requests that are being sent again
        self._router = Router(self.plan, self._new_name)
        self._sessions: dict[ConnectionId, FetchSessions] = {}
        self._share_sessions: dict[ConnectionId, ShareSessions] = {}
        self._assigned = Assigned(lambda topic_id: recording.names.get(topic_id, topic_id), self._new_name)
        self._generations = Generations(self.plan.sent)
        self._in_vain: set[int] = (
            set()
        )  # error codes that were still there when a request had been sent again for long enough
        self._silent = 0  # requests in a row without an answer
        self._fetched = Fetched(
            lambda topic_id: recording.names.get(topic_id, topic_id), self._new_name, self.identities.offset
        )
        self._tasks: set[asyncio.Task[None]] = set()
        for one in self.plan.sent:
            self._left[one.connection] = self._left.get(one.connection, 0) + 1

    async def play(self) -> Result:
        """Prepare and send; on cancellation, end what was begun and raise. Raises UpstreamError before the first request."""
        await prepare(self.plan, self.identities)
        loop = asyncio.get_running_loop()
        sent = sent_together(self.plan.sent)
        order = Order(self.options.speed, sent[0].sent_at if sent else 0, loop.time)
        try:
            for recorded in sent:
                together = held_together(recorded)
                await order.wait(recorded.sent_at, together)
                while len(self._tasks) >= MOST_IN_FLIGHT or (self._produced_again and self._tasks):
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                if self._silent >= MOST_SILENT:
                    self.result.ended = f"{MOST_SILENT} requests in a row were not answered"
                    break
                await self._confirm(but=recorded.connection)
                task = await self._send(recorded)
                if task is not None and recorded.answered_at is not None:
                    order.add(recorded.answered_at, task, together)
                self.progress(recorded.number)
            await order.wait_for_all()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._confirm()
        finally:
            await self._close()
            self._add_fetched()
        return self.result

    # Sending

    async def _way(self, recorded: Recorded, ready: Ready) -> _Way:
        node = await self._router.node(recorded, ready.body)
        return self._ways.setdefault(recorded.connection, {}).setdefault(node, _Way(node))

    async def _send(self, recorded: Recorded) -> "asyncio.Task[None] | None":
        """Send one; the task ends when its answer was compared. None: no answer will come."""
        self._left[recorded.connection] -= 1
        try:
            ready = self._prepare(recorded)
        except (Unsendable, DecodeError, EncodeError) as error:
            self.result.unsent[recorded.api_name, str(error)] += 1
            self._generations.note_end(recorded)
            return None
        self.result.note_sent(recorded, ready.encoded)
        try:
            way = await self._way(recorded, ready)
            future = await self._put(way, recorded, ready)
        except (UpstreamError, LinkClosed) as error:
            self._note_silence(recorded, str(error))
            self._generations.note_end(recorded)
            return None
        self._generations.note_sent(recorded)
        if future is None:
            way.unconfirmed = True
            self._unconfirmed.setdefault(recorded.connection, []).append(way)
            self.result.note(recorded, Outcome.UNANSWERED)
            return None
        task = asyncio.get_running_loop().create_task(
            self._finish(way, recorded, ready, future), name=f"answer to request {recorded.number}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _prepare(self, recorded: Recorded) -> Ready:
        """Replace the ids in a request, and encode it where anything changed. Raises Unsendable, DecodeError, EncodeError."""
        frame = recorded.request
        assert frame.message is not None
        body = recorded.body()
        version = self.plan.cluster.version(recorded.api_key, recorded.api_version)
        changed = recorded.api_key == ApiKey.SYNC_GROUP and self._generations.assign(body)
        changed |= self.identities.translate(frame.message.name, body)
        if recorded.api_key == ApiKey.FETCH:
            changed |= self._sessions_of(recorded).translate(body, self._full_session(recorded))
        if recorded.api_key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
            changed |= self._share_sessions_of(recorded).translate(body)
        if recorded.api_key == ApiKey.CREATE_TOPICS:
            changed |= self._lower_replication(recorded, body)
        if version != recorded.api_version:
            return Ready(body, encode_at(frame.message, version, body, self._names(), self._ids()))
        if not changed:
            return Ready(body, Encoded(version, frame.data[frame.body_start :]))
        trailing = frame.data[len(frame.data) - frame.trailing :] if frame.trailing else b""
        return Ready(body, Encoded(version, frame.message.encode(version, body) + trailing))

    async def _put(self, way: _Way, recorded: Recorded, ready: Ready) -> "asyncio.Future[bytes] | None":
        if way.link is None or way.link.closed is not None:
            way.link = await self.plan.cluster.open(way.node)
            self.result.connections += 1
        header = recorded.request.header
        name = recorded.client_id
        return await way.link.send(
            recorded.api_key,
            ready.encoded.version,
            ready.encoded.body,
            client_id=None if name is None else name.encode("utf-8", "surrogateescape"),
            tags=header.unknown_tags if header is not None else (),
            answered=is_answered(recorded.api_key, ready.body),
        )

    async def _confirm(self, but: ConnectionId | None = None) -> None:
        """Wait until requests without answers were processed, before others follow from them on other connections.

        A broker processes the requests of a connection in turn, so it has when it answers a later one.
        """
        for way in [one for connection, ways in self._unconfirmed.items() if connection != but for one in ways]:
            way.unconfirmed = False
            if way.link is None or self.plan.cluster.versions is None:
                continue
            try:
                await way.link.ask(ApiKey.API_VERSIONS, 0, struct_types("ApiVersionsRequest")["ApiVersionsRequest"]())
            except (LinkClosed, DecodeError) as error:
                self.result.notes[f"after Produce with acks=0: {error}"] += 1
        self._unconfirmed = {one: ways for one, ways in self._unconfirmed.items() if one == but}

    # Answers

    async def _finish(self, way: _Way, recorded: Recorded, ready: Ready, future: "asyncio.Future[bytes]") -> None:
        """Wait for an answer, learn from it and compare it. Never raises."""
        try:
            answer = await self._answer(way, recorded, ready, future)
        except (LinkClosed, UpstreamError) as error:
            self._note_silence(recorded, str(error))
        except DecodeError as error:
            self.result.note_trouble(recorded, f"an answer that cannot be decoded: {error}")
        else:
            self._silent = 0
            self._compare(recorded, ready, answer)
        self._produced_again.discard(recorded.number)
        self._generations.note_end(recorded)
        self._close_if_last(recorded.connection)

    def _close_if_last(self, connection: ConnectionId) -> None:
        """Close the links of a recorded connection that has no requests left."""
        ways = self._ways.get(connection, {}).values()
        if self._left[connection] or any(way.unconfirmed or (way.link and way.link.in_flight) for way in ways):
            return
        for way in ways:
            if way.link is not None:
                way.link.abort("its last request was answered")
        self._ways.pop(connection, None)

    async def _answer(self, way: _Way, recorded: Recorded, ready: Ready, future: "asyncio.Future[bytes]") -> Any:
        """The answer decoded; asked again while the new cluster is not ready and the recorded one was."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            answer = decode_answer(recorded.api_key, ready.encoded.version, await self._within(way, future))
            if recorded.api_key == ApiKey.JOIN_GROUP and await self._joins_again(recorded, ready.body, answer):
                ready = _encoded_again(recorded, ready)
            elif self._is_late(recorded, answer, loop.time() - began):
                return answer
            elif hears_later(recorded, answer) and loop.time() < began + REBALANCE_S:
                await asyncio.sleep(RETRY_S)
            elif self._goes_on(recorded, ready.body, answer):
                ready = _encoded_again(recorded, ready)
                await asyncio.sleep(RETRY_S)
            elif self._to_be_repeated(recorded, answer):
                await self._before_repeating(recorded, ready.body)
                if recorded.api_key == ApiKey.FETCH and ready.body.session_epoch > 0:
                    if not self._sessions_of(recorded).again(ready.body):
                        return answer  # its session was ended meanwhile
                    ready = _encoded_again(recorded, ready)
            else:
                return answer
            self.result.repeated += 1
            if recorded.api_key != ApiKey.SHARE_FETCH:  # its session is with one node
                way = await self._way(recorded, ready)
            again = await self._put(way, recorded, ready)
            assert again is not None
            future = again

    def _is_late(self, recorded: Recorded, answer: Any, seconds: float) -> bool:
        """Whether it was asked again for long enough: not as long, once a whole time of it was in vain for the same error."""
        errors = NOT_READY.intersection(error_codes_of(answer))
        patience = RETRY_S * 5 if errors and errors <= self._in_vain else RETRIES_S
        if seconds < min(patience, self.options.timeout):
            return False
        if self._to_be_repeated(recorded, answer):
            self._in_vain |= errors
        return True

    def _goes_on(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """Change a request that has got less than the recorded one as yet, as its client would ask for more."""
        if recorded.api_key in HEARTBEATS and not self._assigned.is_as_recorded(recorded, answer):
            go_on(body, answer)
            return True
        if acquires_later(recorded, body, answer):
            self._share_sessions_of(recorded).ask_again(body)
            return True
        return False

    async def _joins_again(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """Change a JoinGroup that was answered, where its member has to send it again."""
        if join_anew(recorded, body, answer, self.identities):
            return True
        if await self._generations.is_settled(recorded, answer, min(RETRIES_S, self.options.timeout)):
            return False
        body.member_id = answer.member_id
        return True

    async def _before_repeating(self, recorded: Recorded, body: Any) -> None:
        if recorded.api_key == ApiKey.PRODUCE:
            self._produced_again.add(recorded.number)  # what follows must not be appended before it
        await asyncio.sleep(RETRY_S)
        await self._router.renew(recorded.api_key, body)

    async def _within(self, way: _Way, future: "asyncio.Future[bytes]") -> bytes:
        try:
            async with asyncio.timeout(self.options.timeout):
                return await asyncio.shield(future)
        except TimeoutError:
            why = f"no answer within {self.options.timeout:g} s"
            if way.link is not None:
                way.link.abort(why)
            raise LinkClosed(why) from None

    def _to_be_repeated(self, recorded: Recorded, answer: Any) -> bool:
        found = NOT_READY.intersection(error_codes_of(answer))
        if not found or recorded.response is None or recorded.response.message is None:
            return False
        if recorded.api_key == ApiKey.PRODUCE and not found.issuperset(error_codes_of(answer)):
            return False  # a part of it was appended
        try:
            return not found.intersection(error_codes_of(recorded.response.decode()))
        except DecodeError:
            return False

    def _compare(self, recorded: Recorded, ready: Ready, answer: Any) -> None:
        message = response_message(recorded.api_key)
        response = recorded.response
        if response is None or response.message is None or response.cut or response.error is not None:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        assert message is not None
        try:
            old: Any = response.decode()
            request = recorded.body()
        except DecodeError:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        versions = (response.body_version, ready.encoded.version)
        if versions[0] != versions[1]:
            versions = self._in_one_form(recorded, (request, ready.body), (old, answer), versions)
        place = self.identities.place(request, Place())
        learn_ids(self.identities, message.name, old, answer, place)
        if recorded.api_key == ApiKey.JOIN_GROUP:
            self._generations.note_leader(recorded, old, answer)
        if recorded.api_key == ApiKey.FETCH:
            self._sessions_of(recorded).learn(request, old, answer)
            found = self._fetched.add(recorded.connection, old, answer)
        else:
            found = compare(message.name, old, answer, versions, self.identities, place)
        if recorded.api_key in HEARTBEATS and (other := self._assigned.difference(recorded, answer)) is not None:
            found.differences.append(other)
        self._note(recorded, found)

    def _in_one_form(
        self, recorded: Recorded, requests: tuple[Any, Any], answers: tuple[Any, Any], versions: tuple[int, int]
    ) -> tuple[int, int]:
        """Make answers of two versions comparable; the versions to compare them as."""
        for names, answer in zip((self.plan.recording.names, self._names()), answers, strict=True):
            name_topics(answer, names)
        if recorded.api_key not in OF_ANSWERS:
            return versions
        for request, answer, version in zip(requests, answers, versions, strict=True):
            several(recorded.api_key, request, answer, version)
        newest = max(*versions, FIRST_OF_SEVERAL[recorded.api_key])
        return newest, newest

    def _note(self, recorded: Recorded, found: Comparison) -> None:
        self.result.left_out.update(found.left_out)
        self.result.note(recorded, Outcome.DIFFERENT if found.differences else Outcome.SAME)
        for difference in found.differences:
            self.result.note_difference(recorded, difference)

    def _note_silence(self, recorded: Recorded, why: str) -> None:
        if recorded.response is None and recorded.expects_response:
            self.result.note(recorded, Outcome.NOT_RECORDED)
        else:
            self._silent += 1
            self.result.note_trouble(recorded, why)

    # What is between the two clusters

    def _sessions_of(self, recorded: Recorded) -> FetchSessions:
        return self._sessions.setdefault(recorded.connection, FetchSessions())

    def _share_sessions_of(self, recorded: Recorded) -> ShareSessions:
        return self._share_sessions.setdefault(recorded.connection, ShareSessions())

    def _full_session(self, recorded: Recorded) -> Any:
        if recorded.session is None:
            return None
        for one in recorded.session.partitions:
            name = self.plan.recording.names.get(one.topic, one.topic)
            one.fetch_offset = self.identities.offset(one.fetch_offset, name, one.partition)
            one.topic = self.identities.uuids.get(one.topic, one.topic)
        return recorded.session

    def _lower_replication(self, recorded: Recorded, body: Any) -> bool:
        """Ask for as many replicas as the new cluster has brokers, where the recorded one had enough."""
        most = len(self.plan.cluster.nodes)
        answer: Any = None if recorded.response is None else recorded.response.decode()
        refused = {topic.name for topic in answer.topics if topic.error_code} if answer is not None else set()
        lowered = [topic for topic in body.topics if topic.replication_factor > most > 0 and topic.name not in refused]
        for topic in lowered:
            self.result.notes[f"topic {topic.name}: {topic.replication_factor} replicas, lowered to {most}"] += 1
            topic.replication_factor = most
        return bool(lowered)

    def _new_name(self, topic_id: str) -> str:
        return self._names().get(topic_id, topic_id)

    def _names(self) -> dict[str, str]:
        """Topic id of the new cluster -> topic."""
        names = self.plan.recording.names
        return {new: names[old] for old, new in self.identities.uuids.items() if old in names}

    def _ids(self) -> dict[str, str]:
        return {name: topic_id for topic_id, name in self._names().items()}

    def _add_fetched(self) -> None:
        for connection, difference in self._fetched.differences():
            self.result.note_fetched(connection, difference)
        if self._fetched.is_full:
            self.result.notes["more records were read than are compared"] += 1

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for way in (way for ways in self._ways.values() for way in ways.values()):
            if way.link is not None:
                way.link.abort("the replay has ended")

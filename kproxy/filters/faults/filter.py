"""FaultInjection: the filter. It finds the first fault that fires on a request, and applies it to the request or its response."""

from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from kproxy.filters.contract import (
    Close,
    Direction,
    Filter,
    Forward,
    Replace,
    Request,
    Response,
    Silence,
    Truncate,
    Verdict,
    Want,
)
from kproxy.filters.faults import errors, fetch_sessions
from kproxy.filters.faults.options import FaultsOptions
from kproxy.filters.faults.rules import Rule, asks_for_topics, rules, topics_asked
from kproxy.filters.faults.topics import TopicNames
from kproxy.protocol import ApiKey

STATE = "faults"  # in ConnectionFacts.state
MARGIN_S = 10.0  # that a verdict may take beyond the longest delay


@dataclass(slots=True)
class Due:
    """A fault that is applied when the response comes."""

    rule: Rule
    request: Request  # as the client sent it
    part: Request | None = None  # the topics that were removed from the request for the broker
    topics: dict[fetch_sessions.Topic, set[int]] = field(default_factory=dict)  # of a Fetch: what its session had then


@dataclass(slots=True)
class Kept:
    """What is kept for a connection."""

    due: deque[Due] = field(default_factory=deque)  # in the order of the requests
    session: fetch_sessions.FetchSession = field(default_factory=fetch_sessions.FetchSession)


class FaultInjection(Filter):
    """Makes requests fail on purpose: errors, delays, lost connections, by API, topic and client, on the calls that are named.

    A call of a fault is a request that it selects. Calls are counted over all brokers and workers of the cluster; counts, of
    calls and of those on which each fault fired, are at /filters of the admin port. Scenarios:

        leader_moved          Produce and Fetch are answered with NOT_LEADER_OR_FOLLOWER once
        coordinator_moved     requests to coordinators are answered with NOT_COORDINATOR once
        delayed_end_txn       each EndTxn is delayed by 5 s
        fenced_producer       Produce is answered with INVALID_PRODUCER_EPOCH, transactions with PRODUCER_FENCED
        slow_broker           every response is delayed by 1 s
        half_open_connection  one connection carries nothing any more, and stays open
        throttled             Produce and Fetch responses say that the client is throttled for 1 s
        authorization_lost    errors of authorization for topics, groups and transactional ids

    On the command line: kproxy run --fault "api_name=Produce error=NOT_LEADER_OR_FOLLOWER times=2".
    """

    name = "faults"
    Options = FaultsOptions
    fails_open = True

    def __init__(self, options: FaultsOptions) -> None:
        self._rules = rules(options.faults)
        self._topic_names: TopicNames
        self._names = {rule.name for rule in self._rules}
        self._of: dict[int, list[Rule]] = {}
        for rule in self._rules:
            for api_key in rule.apis:
                self._of.setdefault(api_key, []).append(rule)
        self.answers = frozenset(key for rule in self._rules for key in rule.apis if rule.answers(key))
        self.identifies = any(rule.fault.where for rule in self._rules)
        self.timeout = MARGIN_S + max((rule.fault.delay or 0.0 for rule in self._rules), default=0.0)

    def on_start(self) -> None:
        """Find the counts of each fault: after a reload, a fault of the same name continues its counts."""
        self._topic_names = TopicNames.of(self.runtime)
        for rule in self._rules:
            rule.start(self.runtime)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HOLD what faults select; always Fetch requests and Metadata responses, as later faults need sessions and topic ids."""
        if direction == Direction.REQUEST:
            return Want.HOLD if api_key in self._of or api_key == ApiKey.FETCH else Want.PASS
        has_effect = any(rule.when(api_key) == "after" or rule.topics for rule in self._of.get(api_key, ()))
        return Want.HOLD if has_effect or api_key == ApiKey.METADATA else Want.PASS

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Find the fault that fires on the request, if any."""
        kept = _kept(request)
        if request.api_key == ApiKey.FETCH:
            kept.session.note(request)
        rule = self._fired_on(request, kept)
        if rule is None:
            return Forward()
        if rule.when(request.api_key) == "after":
            topics = dict(kept.session.topics) if request.api_key == ApiKey.FETCH else {}
            kept.due.append(Due(rule, request, topics=topics))
            return Forward()
        if rule.fault.delay is None:
            return self._before(rule, request, kept)
        return self._late(rule, request, kept)

    def _fired_on(self, request: Request, kept: Kept) -> Rule | None:
        topics: list[fetch_sessions.Topic] | None = None
        for rule in self._of.get(request.api_key, ()):
            if rule.topics and topics is None:
                is_fetch = request.api_key == ApiKey.FETCH
                topics = list(kept.session.topics) if is_fetch else topics_asked(request)
            if rule.when(request.api_key) == "after" and not request.expects_response:
                continue  # no response will come to which it could be applied
            is_call = self._has_place(rule, request, kept) and rule.selects(request, self._topic_names, topics or ())
            if is_call and rule.fires():
                return rule
        return None

    def _has_place(self, rule: Rule, request: Request, kept: Kept) -> bool:
        """Return whether the response has a place for the error of a fault: a Metadata request may ask for no topics."""
        code = rule.code(request.api_key)
        if code is None or errors.is_of_whole_response(request, code):
            return True
        if request.api_key == ApiKey.METADATA:
            return asks_for_topics(request)
        return request.api_key != ApiKey.FETCH or bool(kept.session.topics)

    async def _late(self, rule: Rule, request: Request, kept: Kept) -> Verdict:
        await self.runtime.sleep(rule.fault.delay or 0.0)
        return self._before(rule, request, kept)

    def _before(self, rule: Rule, request: Request, kept: Kept) -> Verdict:
        """Apply the fault to a request that the broker does not get, or gets late."""
        rule.count_fired()
        fault, code = rule.fault, rule.code(request.api_key)
        if fault.disconnect:
            return Close(f"fault: {rule.name}")
        if fault.black_hole:
            return Silence()
        return Forward() if code is None else self._answered(rule, request, kept, code)

    def _answered(self, rule: Rule, request: Request, kept: Kept, code: int) -> Verdict:
        """Answer with the error; if the request has topics that are not selected, only for the selected ones."""
        if rule.topics and not all(self._selects(rule, *topic) for topic in topics_asked(request)):
            if errors.can_split(request):
                part = errors.part_of(request, lambda *topic: self._selects(rule, *topic))
                rest = errors.part_of(request, lambda *topic: not self._selects(rule, *topic))
                if request.expects_response:
                    kept.due.append(Due(rule, request, part))
                return Replace(rest.message)
            if errors.answers_topics(request):
                kept.due.append(Due(rule, request))
                return Forward()
        # without a response brokers close the connection, by which the client learns that something is wrong (KafkaApis)
        reply = errors.whole(request, code) if request.expects_response else None
        return reply or Close(f"fault: {rule.name}")

    def _selects(self, rule: Rule, name: str, topic_id: str) -> bool:
        return not rule.topics or self._topic_names.matches(rule.topics, name, topic_id)

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Apply the fault that fired on its request."""
        if response.request.api_key == ApiKey.METADATA:
            self._learn(response.message)
        due = _due(response, self._names)
        if due is None:
            return Forward()
        if due.rule.fault.delay is not None and due.rule.when(response.request.api_key) == "after":
            return self._after_late(due, response)
        return self._after(due, response)

    async def _after_late(self, due: Due, response: Response) -> Verdict:
        await self.runtime.sleep(due.rule.fault.delay or 0.0)
        return self._after(due, response)

    def _after(self, due: Due, response: Response) -> Verdict:
        """Apply the fault to a response."""
        fault, code = due.rule.fault, due.rule.code(response.request.api_key)
        if due.part is None:
            due.rule.count_fired()
        if fault.disconnect:
            return Close(f"fault: {due.rule.name}")
        if fault.black_hole:
            return Silence()
        if fault.truncate is not None:
            return Truncate(fault.truncate)
        changed = self._throttled(due, response)
        if code is not None:
            return self._failed(due, response, code)
        return Replace(response.message) if changed else Forward()

    def _throttled(self, due: Due, response: Response) -> bool:
        seconds = due.rule.fault.throttle
        if seconds is None or not hasattr(response.message, "throttle_time_ms"):
            return False
        message: Any = response.message
        message.throttle_time_ms = int(seconds * 1_000)
        response.connection.mute_s = seconds
        return True

    def _failed(self, due: Due, response: Response, code: int) -> Verdict:
        """Return the response with the error."""

        def selects(name: str, topic_id: str) -> bool:
            return self._selects(due.rule, name, topic_id)

        if due.part is not None:
            errors.merge(response.message, due.part, code)
        elif response.request.api_key in errors.ALWAYS_IN_PLACE or (
            due.rule.topics and errors.answers_topics(due.request)
        ):
            if due.topics and not errors.is_of_whole_response(due.request, code):
                fetch_sessions.add_missing(due.request, response.message, due.topics, selects)
            errors.put_in_place(due.request, response.message, code, selects)
        else:
            reply = errors.whole(due.request, code)
            if reply is None:
                return Close(f"fault: {due.rule.name}")
            return Replace(reply.message)
        return Replace(response.message)

    def _learn(self, message: Any) -> None:
        for topic in message.topics:
            self._topic_names.learn(topic.topic_id, topic.name or "")


def _kept(frame: Request | Response) -> Kept:
    """Return what is kept for the connection of a frame."""
    kept: Kept = frame.connection.state.setdefault(STATE, Kept())
    return kept


def _due(response: Response, names: set[str]) -> Due | None:
    """Return the fault that fired on the request of a response, if it has one of these names.

    Drops earlier entries, whose responses never came.
    """
    waiting = _kept(response).due
    number = response.request.correlation_id
    if any(due.request.correlation_id == number and due.rule.name in names for due in waiting):
        while waiting:
            due = waiting.popleft()
            if due.request.correlation_id == number:
                return due
    return None

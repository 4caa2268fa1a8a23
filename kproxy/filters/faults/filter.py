"""FaultInjection: the filter. It finds the first fault that fires on a request, and applies it to the request or its response."""

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
from kproxy.filters.faults import effects
from kproxy.filters.faults.options import FaultsOptions
from kproxy.filters.faults.rules import Rule, requested_topics, requests_topics, rules
from kproxy.filters.fetching import FetchedTopics, Partitions
from kproxy.filters.named_resources import Topic
from kproxy.protocol import ApiKey

STATE = "faults"  # in ConnectionFacts.state and in Request.kept
MARGIN_S = 10.0  # that a verdict may take beyond the longest delay


@dataclass(slots=True)
class Due:
    """A fault that is applied when the response comes."""

    rule: Rule
    request: Request  # as the client sent it
    part: Request | None = None  # the topics that were removed from the request for the broker
    fetched: Partitions = field(default_factory=dict)  # of a Fetch: what it fetches, with its session


@dataclass(slots=True)
class Fetches:
    """What the Fetch requests of a connection fetch."""

    sessions: FetchedTopics = field(default_factory=FetchedTopics)
    fetched: Partitions = field(default_factory=dict)  # by the latest one


class FaultInjection(Filter):
    """Makes requests fail on purpose: errors, delays, lost connections, by API, topic and client, on the calls that are named.

    A call of a fault is a request that it selects. Calls are counted over all brokers and workers of the cluster. /filters of
    the admin port shows for each fault its calls, and on how many of them it fired. Scenarios:

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
    learns_topics = True
    Options = FaultsOptions
    fails_open = True

    def __init__(self, options: FaultsOptions) -> None:
        self._rules = rules(options.faults)
        self._names = {rule.name for rule in self._rules}
        self._of: dict[int, list[Rule]] = {}
        for rule in self._rules:
            for api_key in rule.apis:
                self._of.setdefault(api_key, []).append(rule)
        self.answers = frozenset(key for rule in self._rules for key in rule.apis if rule.answers(key))
        self.names_topics = any(rule.topics for rule in self._rules)
        self.identifies = any(rule.fault.where for rule in self._rules)
        self.timeout = MARGIN_S + max((rule.fault.delay or 0.0 for rule in self._rules), default=0.0)

    def on_start(self) -> None:
        """Find the counts of each fault: after a reload, a fault of the same name continues its counts."""
        for rule in self._rules:
            rule.start(self.runtime)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HOLD what faults select; always Fetch requests, as faults that a reload adds need the sessions."""
        if direction == Direction.REQUEST:
            return Want.HOLD if api_key in self._of or api_key == ApiKey.FETCH else Want.PASS
        has_effect = any(rule.when(api_key) == "after" or rule.topics for rule in self._of.get(api_key, ()))
        return Want.HOLD if has_effect else Want.PASS

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Find the fault that fires on the request, if any."""
        fetches: Fetches = request.connection.state.setdefault(STATE, Fetches())
        if request.api_key == ApiKey.FETCH:
            fetches.fetched = fetches.sessions.note(request)
        rule = self._fired_on(request, fetches)
        if rule is None:
            return Forward()
        if rule.when(request.api_key) == "after":
            fetched = fetches.fetched if request.api_key == ApiKey.FETCH else {}
            _keep(Due(rule, request, fetched=fetched))
            return Forward()
        if rule.fault.delay is None:
            return self._before(rule, request)
        return self._late(rule, request)

    def _fired_on(self, request: Request, fetches: Fetches) -> Rule | None:
        topics: list[Topic] | None = None
        for rule in self._of.get(request.api_key, ()):
            if rule.topics and topics is None:
                is_fetch = request.api_key == ApiKey.FETCH
                topics = list(fetches.fetched) if is_fetch else requested_topics(request)
            if rule.when(request.api_key) == "after" and not request.expects_response:
                continue  # no response will come to which it could be applied
            is_call = self._has_place(rule, request, fetches) and rule.selects(request, self.topic_names, topics or ())
            if is_call and rule.fires():
                return rule
        return None

    def _has_place(self, rule: Rule, request: Request, fetches: Fetches) -> bool:
        """Return whether the response has a place for the error of a fault: a Metadata request may ask for no topics."""
        code = rule.code(request.api_key)
        if code is None or effects.is_of_whole_response(request, code):
            return True
        if request.api_key == ApiKey.METADATA:
            return requests_topics(request)
        return request.api_key != ApiKey.FETCH or bool(fetches.fetched)

    async def _late(self, rule: Rule, request: Request) -> Verdict:
        await self.runtime.sleep(rule.fault.delay or 0.0)
        return self._before(rule, request)

    def _before(self, rule: Rule, request: Request) -> Verdict:
        """Apply the fault to a request that the broker does not get, or gets late."""
        rule.count_fired()
        fault, code = rule.fault, rule.code(request.api_key)
        if fault.disconnect:
            return Close(f"fault: {rule.name}")
        if fault.black_hole:
            return Silence()
        return Forward() if code is None else self._answered(rule, request, code)

    def _answered(self, rule: Rule, request: Request, code: int) -> Verdict:
        """Answer with the error; if the request has topics that are not selected, only for the selected ones."""
        if rule.topics and not all(self._selects(rule, *topic) for topic in requested_topics(request)):
            if effects.can_split(request):
                part = effects.part_of(request, lambda *topic: self._selects(rule, *topic))
                rest = effects.part_of(request, lambda *topic: not self._selects(rule, *topic))
                if request.expects_response:
                    _keep(Due(rule, request, part))
                return Replace(rest.message)
            if effects.answers_topics(request):
                _keep(Due(rule, request))
                return Forward()
        # without a response brokers close the connection, by which the client learns that something is wrong (KafkaApis)
        reply = effects.error_reply(request, code) if request.expects_response else None
        return reply or Close(f"fault: {rule.name}")

    def _selects(self, rule: Rule, name: str, topic_id: str) -> bool:
        return not rule.topics or rule.names_topic(name, topic_id, self.topic_names)

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Apply the fault that fired on its request."""
        fired: list[Due] = response.request.kept.get(STATE, [])
        due = next((due for due in fired if due.rule.name in self._names), None)
        if due is None:
            return Forward()
        response.request.kept[STATE] = [other for other in fired if other is not due]  # else it would refer to itself
        if due.rule.fault.delay is not None and due.rule.when(response.request.api_key) == "after":
            return self._after_late(due, response)
        return self._after(due, response)

    async def _after_late(self, due: Due, response: Response) -> Verdict:
        await self.runtime.sleep(due.rule.fault.delay or 0.0)
        return self._after(due, response)

    def _after(self, due: Due, response: Response) -> Verdict:
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
        def selects(name: str, topic_id: str) -> bool:
            return self._selects(due.rule, name, topic_id)

        if due.part is not None:
            effects.merge(response.message, due.part, code)
        elif response.request.api_key in effects.ALWAYS_IN_PLACE or (
            due.rule.topics and effects.answers_topics(due.request)
        ):
            if due.fetched and not effects.is_of_whole_response(due.request, code):
                effects.add_missing_partitions(due.request, response.message, due.fetched, selects)
            effects.put_in_place(due.request, response.message, code, selects)
        else:
            reply = effects.error_reply(due.request, code)
            if reply is None:
                return Close(f"fault: {due.rule.name}")
            return Replace(reply.message)
        return Replace(response.message)


def _keep(due: Due) -> None:
    """Keep a fault for the response to its request."""
    due.request.kept.setdefault(STATE, []).append(due)

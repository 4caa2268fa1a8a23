"""Deny: requests that a rule forbids get Kafka's error, as from a broker, and do not reach one.

A rule about ``topic`` is evaluated for each topic of a request. Topics that it forbids are removed from the request, and their
errors are put into the broker's response, so that the other topics are served. Any other rule forbids the request as a whole.
A Metadata request goes on even if no topic is left in it, as clients need the brokers in its response.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

from msgspec import Meta

from kproxy.errors import did_you_mean
from kproxy.filters.audit import shortened, that_fit
from kproxy.filters.conditions import Condition, ConditionText, Records, Subject, read_records
from kproxy.filters.contract import (
    Close,
    ConnectionFacts,
    Filter,
    Forward,
    Journal,
    Replace,
    Reply,
    Request,
    Response,
    Runtime,
    SharedCount,
    Verdict,
)
from kproxy.filters.error_responses import Filled, error_places, error_response
from kproxy.filters.fetching import OpenedSessions
from kproxy.filters.identify import is_logging_in
from kproxy.filters.named_resources import (
    GROUPS,
    MOST_RESOURCES,
    TELLING,
    acts_on_all_topics,
    names_topics,
    refuse_groups,
    topics_in,
    without,
)
from kproxy.filters.turns import NotYet, Steps, in_turns, retried
from kproxy.options import OptionMistakes, Options, Rotated, quoted, text
from kproxy.protocol import ApiKey
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts
from kproxy.protocol.vocabulary import Scope
from kproxy.schemas.store import SCHEMAS_S, Schemas
from kproxy.schemas.viewer import make_viewers

KEPT = "deny"  # in Request.kept: the errors of topics that were taken out
CLOSE = "CLOSE"
AT_ONCE = 500  # topics that rules are applied to before other connections have their turn
ERRORS = ErrorCode.__members__.keys() - {"NONE"}
LOG_EVERY_S = 1.0  # for each rule
MOST_LATE = 1_000  # decisions that wait for the disk
LONGEST_LOGGED = 500  # characters of a decision
LONGEST_COUNTED = 100  # characters of a rule's name, where its decisions are counted
LOGIN_S = 0.005  # between looks whether a login is answered
SCOPES = Scope.REQUEST, Scope.RECORDS
HANDSHAKES = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
SESSIONS = {ApiKey.FETCH, ApiKey.SHARE_FETCH}  # whose requests name only what is new in a session
IN_ELEMENTS = {  # APIs in whose responses only elements have errors of authorization, not the response itself
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.SHARE_FETCH,
}
WITHOUT_NAMES = {  # whose requests may be about topics that they do not name: by ids, by patterns of ACLs
    ApiKey.METADATA,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DELETE_ACLS,
}
BY_KIND = {
    "topics": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "groups": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "transactionalIds": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Rule(Options, frozen=True):
    """A rule that forbids requests, or topics of requests."""

    when: Annotated[
        ConditionText,
        text(
            "A condition in CEL with the fields that are listed below, and for Produce with record, which has topic, partition, "
            'key, value, headers and timestamp: record.value.country == "DE" forbids a topic if it holds for one of its records.'
        ),
    ]
    api_name: Annotated[
        tuple[str, ...],
        text("Names of the APIs it is for; empty: all but logins. Only these are held: name them to spare the others."),
    ] = ()
    error: Annotated[
        str | None,
        text("Kafka's name of the error, or CLOSE; null: that of a missing authorization for what the request names."),
    ] = None
    message: Annotated[str | None, text("For people, in versions of responses that have a field for it.")] = None
    name: Annotated[str | None, text("Name of the rule in what is logged; null: its condition.")] = None
    dry_run: Annotated[bool, text("Only say what would be denied.")] = False

    def __post_init__(self) -> None:
        problems: list[tuple[str, str]] = []
        is_for_each_topic = False
        try:
            condition = Condition(self.when, "when", *SCOPES)
            is_for_each_topic = condition.is_for_each_topic
            if condition.needs_records and set(self.api_name) - {"Produce"}:
                problems.append(("api_name", "a rule about record is for Produce alone"))
        except ValueError as error:
            problems.append(("when", str(error)))
        if self.error not in (None, CLOSE, *ERRORS):
            name = str(self.error)
            hint = did_you_mean(name, ERRORS, "kproxy api --errors lists them")
            problems.append(("error", f"there is no error {quoted(name)}; {hint}"))
        known = {api.name: api_key for api_key, api in facts().apis.items()}
        for number, api in enumerate(self.api_name):
            if api not in known:
                hint = did_you_mean(api, known, "kproxy api lists them")
                problems.append((f"api_name[{number}]", f"there is no API {quoted(api)}; {hint}"))
            elif is_for_each_topic and known[api] not in TELLING and not names_topics(known[api]):
                problems.append(
                    (f"api_name[{number}]", f"{api} names no topic: the rule, which is about topic, would never hold")
                )
        if problems:
            raise OptionMistakes(problems)


class DenyOptions(Options, frozen=True):
    """Options of deny."""

    rules: Annotated[
        Annotated[tuple[Rule, ...], Meta(min_length=1)],
        text(
            "Evaluated in order: the first that holds decides, for each topic or the whole request; if none does, it is allowed."
        ),
    ]
    dry_run: Annotated[bool, text("Only say what would be denied, by any rule.")] = False
    file: Annotated[
        Rotated | None,
        text(
            "Where decisions are written, a JSON line each, by worker as for audit; null: they are logged as warnings."
        ),
    ] = None


class Compiled:
    """A rule that is ready to be evaluated."""

    def __init__(self, rule: Rule, dry_run: bool) -> None:
        self.condition = Condition(rule.when, "when", *SCOPES)
        self.error = rule.error
        self.message = rule.message or "denied by a rule of the proxy"
        self.name = rule.name or rule.when
        self.dry_run = rule.dry_run or dry_run
        self._counts: dict[str, SharedCount] = {}  # by event
        self._logged_at = -LOG_EVERY_S
        self._left_out = 0  # decisions since then that were not logged
        names = set(rule.api_name)
        apis = facts().apis.items()
        self.apis = frozenset(
            key for key, api in apis if api.name in names or (not names and api.name not in HANDSHAKES)
        )
        if self.condition.needs_records:
            self.apis = frozenset({ApiKey.PRODUCE})

    def holds(self, subject: Subject, topic: str | None = None, record: dict[str, Any] | None = None) -> bool:
        """Return whether the rule forbids. If that cannot be answered, a dry run says so too, while otherwise it is a fault."""
        return self.condition.holds(subject, topic, record, unclear=True if self.dry_run else None)

    def count(self, runtime: Runtime, event: str) -> None:
        if event not in self._counts:
            self._counts[event] = runtime.shared_count("deny", event, self.name[:LONGEST_COUNTED])
        self._counts[event].add()

    def may_log(self, now: float) -> int | None:
        """Return how many decisions were left out since the last logged one; None: leave this one out, too."""
        if now - self._logged_at < LOG_EVERY_S:
            self._left_out += 1
            return None
        left_out, self._left_out, self._logged_at = self._left_out, 0, now
        return left_out

    def code(self, subject: Subject) -> int:
        """Return the error code for a request."""
        if self.error is not None:
            return ErrorCode.__members__.get(self.error, ErrorCode.UNKNOWN_SERVER_ERROR)  # CLOSE is none
        if self.condition.is_for_each_topic:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        kinds = (code for kind, code in BY_KIND.items() if subject[kind])
        return next(kinds, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class RemainingRequest:
    """A request while rules are applied to it: the part that is left, and the errors of the topics that were removed."""

    def __init__(self, request: Request, topic_names: Any, records: Records | None) -> None:
        self.request = request
        self.subject = Subject(request, topic_names, records)
        self._topic_names = topic_names
        self._target = ""  # array of the response for the errors; "": nothing was taken out
        self._errors: list[Any] = []

    def note(self, target: str, errors: list[Any]) -> None:
        """Note the errors of topics that were removed; the rules that follow see the part that is left."""
        self._target, self._errors = target, [*self._errors, *errors]
        self.subject = Subject(self.request, self._topic_names, self.subject.records)

    def verdict(self, verdict_on_rest: Verdict | None) -> Verdict:
        """Return the verdict on the whole request from that on the part that is left; None: that part goes on."""
        if not self._target:
            return Forward() if verdict_on_rest is None else verdict_on_rest
        if isinstance(verdict_on_rest, Reply):
            setattr(
                verdict_on_rest.message,
                self._target,
                [*(getattr(verdict_on_rest.message, self._target) or ()), *self._errors],
            )
        if verdict_on_rest is not None:
            return verdict_on_rest
        self.request.kept.setdefault(KEPT, []).append((self._target, self._errors))
        return Replace(self.request.message)


class Deny(Filter):
    """Answer what a rule forbids with Kafka's error, as a broker that refuses it does.

    The error is in each place of the response that has one: for each topic, partition or group of the request, or
    for the response. If a response has no place for an error, and for a Produce with acks=0, the connection is
    closed. A rule with the field topic is evaluated for each topic by itself: the other topics of the request are
    forwarded. A request for all topics is forwarded, and what its response says about a forbidden topic is removed:
    Metadata, DescribeTopicPartitions, OffsetFetch, DescribeLogDirs, ListPartitionReassignments,
    DescribeShareGroupOffsets, DescribeAcls, ListConfigResources, DescribeTransactions. For a group with such a
    topic, ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe return the error alone. ElectLeaders
    for all partitions, and CreateAcls and DeleteAcls of ACLs that may be for more topics than one (no name, the
    name *, a pattern type other than LITERAL), act on topics that they do not name: these are refused, unless the
    rest of the rule rules out every topic (principal != "admin" && topic == "pay", for admin). DescribeGroups has
    names of topics in bytes of its members, which no rule reads.

    The names of topics by id come from the Metadata responses that workers have seen. If a rule is about topics, a
    request with another id gets UNKNOWN_TOPIC_ID, after which the client asks for Metadata. A fetch session that
    was not opened under the rules is refused as unknown, and the client opens another.

    A regular expression of ConsumerGroupHeartbeat (KIP-848) names no topic: the topics that a group gets by it are
    denied when they are fetched, so let the rule be for Fetch as well.

    Records are read by their schemas (``schemas`` in the configuration), as JSON or as text, and a request waits up to 2 s for a
    schema that has to be asked for. A record that cannot be read refuses the request, as does a field of a value that is none:
    write record.value != null && record.value.country == "DE" where there are tombstones.

    A condition that cannot be answered refuses the request: a value is null or of a wrong type, this version of the
    request lacks the field (others have it), or the request names more than 100,000 things. Write clientId != null
    && clientId.startsWith("a").

    APIs at versions that kproxy does not know are not offered to clients, as no rule could read them, nor is
    Envelope, in which brokers send requests of their clients to controllers.

    Without a file, each rule logs its first decision and then at most one line a second, with the number of those
    left out. All are counted at /metrics and /filters of the admin port, by rule.
    """

    name = "deny"
    identifies = True
    required = True
    refuses = (ApiKey.ENVELOPE,)  # it has requests of others in it (KIP-590): what brokers send to controllers
    fault_error = ErrorCode.POLICY_VIOLATION
    Options = DenyOptions

    def __init__(self, options: DenyOptions) -> None:
        self.options = options
        self._rules = [Compiled(rule, options.dry_run) for rule in options.rules]
        self.requests = frozenset(key for rule in self._rules for key in rule.apis)
        enforced = [rule for rule in self._rules if not rule.dry_run]
        self.answers = frozenset(key for rule in enforced for key in rule.apis)
        by_topic = {key for rule in enforced if rule.condition.is_for_each_topic for key in rule.apis}
        sessions = {key for rule in enforced if rule.condition.needs_topics for key in rule.apis & SESSIONS}
        self.responses = frozenset(sessions.union(filter(_has_topics, by_topic), by_topic & TELLING))
        self._opened = OpenedSessions(sessions)
        self.names_topics = any(rule.condition.needs_topics for rule in self._rules)
        self._needs_login = any(rule.condition.needs_login for rule in self._rules)
        self.reads_values = self._needs_records = any(rule.condition.needs_records for rule in self._rules)
        self._viewers = Viewers()
        self._schemas = Schemas()
        self._journal: Journal | None = None
        self._late: deque[tuple[int, bytes]] = deque()  # decisions that the disk was too slow for: number and line

    def on_start(self) -> None:
        """Open the journal of decisions and the sources of schemas, if they are needed."""
        if self._needs_records:
            self._schemas = self.runtime.schemas()
            self._viewers = make_viewers(self._schemas)
        if self.options.file is not None:
            self._journal = self.runtime.journal(self.options.file)

    def on_stop(self) -> None:
        """Write the decisions that are late; what cannot be written now is dropped."""
        if self._journal is not None:
            self._write_late(self._journal)
            while self._late:
                self._journal.drop(self._late.popleft()[0])

    def on_request(self, request: Request) -> Verdict | Any:
        """Apply the rules in order, once it is known who the client is."""
        if self._late and self._journal is not None:
            self._write_late(self._journal)
        needs_records = self._needs_records and request.api_key == ApiKey.PRODUCE
        if needs_records or (self._needs_login and is_logging_in(request.connection)):
            return self._decide_later(request, needs_records)
        return self._decide(request)

    async def _decide_later(self, request: Request, needs_records: bool) -> Verdict:
        """Wait until a login is answered: clients may send requests behind it at once, as brokers read them after it.

        Then read the records in a thread, and once more when a registry has answered.
        """
        while self._needs_login and is_logging_in(request.connection):
            await self.runtime.sleep(LOGIN_S)

        async def read(is_late: bool) -> Records:
            records = await self.runtime.in_thread(
                partial(read_records, request.message, self.topic_names, self._viewers)
            )
            if self._schemas.is_asked(None) and not is_late:
                raise NotYet
            return records

        until = self.runtime.monotonic() + SCHEMAS_S
        records = await retried(self.runtime, until, read) if needs_records else None
        verdict = self._decide(request, records)
        return verdict if isinstance(verdict, Verdict) else await verdict

    def _decide(self, request: Request, records: Records | None = None) -> Verdict | Any:
        unopened = self._opened.refusal(request)
        if unopened is not None:
            return Reply(unopened)
        rules = [rule for rule in self._rules if request.api_key in rule.apis]
        remaining = RemainingRequest(request, self.topic_names, records)
        return in_turns(self._apply(rules, remaining))

    def _apply(self, rules: list[Compiled], remaining: RemainingRequest) -> Steps[Verdict]:
        for rule in rules:
            verdict = yield from self._ask(rule, remaining)
            if verdict is not None:
                return remaining.verdict(verdict)
        return remaining.verdict(None)

    def _ask(self, rule: Compiled, remaining: RemainingRequest) -> Steps[Verdict | None]:
        """Return the verdict of a rule; None: the part that is left goes on."""
        request, subject = remaining.request, remaining.subject
        if _is_unnamed(rule, request, subject):
            expects_none = not request.expects_response
            response = None if expects_none else error_response(request, ErrorCode.UNKNOWN_TOPIC_ID, in_elements=True)
            return Close("a topic id that is not known") if response is None else Reply(response)
        if not rule.condition.is_for_each_topic:
            return self._refuse(rule, request, subject, None) if rule.holds(subject) else None
        if acts_on_all_topics(request.api_key, request.message):
            return self._refuse(rule, request, subject, None) if rule.condition.may_hold(subject) else None
        denied: dict[str | None, None] = {}
        for number, (topic, record) in enumerate(_asked_about(rule, request, subject), 1):
            if topic not in denied and rule.holds(subject, topic, record):
                denied[topic] = None
            if number % AT_ONCE == 0:
                yield
        return self._refuse_topics(rule, remaining, list(denied)) if denied else None

    def _refuse_topics(self, rule: Compiled, remaining: RemainingRequest, denied: list[str | None]) -> Verdict | None:
        """Take some topics out, or refuse all that there are; None: the others go on, or it is only said."""
        request, subject = remaining.request, remaining.subject
        are_left = len(denied) < len(subject["topics"]) or _asks_for_brokers(request)
        may_go_on = are_left and not rule.dry_run and rule.error != CLOSE
        if may_go_on and self._take_out(rule, remaining, set(denied)):
            self._say(rule, request, denied, rule.code(subject))
            return None
        return self._refuse(rule, request, subject, denied)

    def _refuse(self, rule: Compiled, request: Request, subject: Subject, topics: list[Any] | None) -> Verdict | None:
        """Refuse the whole request; None in a dry run, which only reports it."""
        code = rule.code(subject)
        self._say(rule, request, topics if topics is not None else subject["topics"], code)
        if rule.dry_run:
            return None
        if rule.error == CLOSE:
            return Close(f"denied by {rule.name}")
        if not request.expects_response:
            return Close(f"denied by {rule.name}: acks=0")  # as a broker, so that the client looks for what is wrong
        response = error_response(request, code, rule.message, in_elements=request.api_key in IN_ELEMENTS)
        return Close(f"denied by {rule.name}") if response is None else Reply(response)

    def _take_out(self, rule: Compiled, remaining: RemainingRequest, denied: set[Any]) -> bool:
        """Take topics out of the request, and keep their errors for the response; False: not possible in this API."""
        request = remaining.request
        filled = _topic_array(request.api_key, request.api_version)
        message: Any = request.message
        if filled is None or not request.expects_response:
            return False
        source = filled.sources[0]
        elements = getattr(message, source.path[0])
        kept = [each for each in elements if self._name(each) not in denied]
        if not kept and not _asks_for_brokers(request):
            return False
        setattr(message, source.path[0], [each for each in elements if self._name(each) in denied])
        refused = error_response(request, rule.code(remaining.subject), rule.message, in_elements=True)
        setattr(message, source.path[0], kept)
        remaining.note(filled.target, getattr(refused, filled.target))
        return True

    def _name(self, element: Any) -> str | None:
        """Return the topic of an element of a request, by its name or id."""
        if isinstance(element, str):
            return element
        own = next((name for field in ("name", "topic", "topic_name") if (name := getattr(element, field, None))), None)
        name_: str | None = own or self.topic_names.get(getattr(element, "topic_id", ""))
        return name_

    def on_response(self, response: Response) -> Verdict | Any:
        """Put the errors of topics that were taken out of the request into its response; hide those that it need not name."""
        self._opened.note(response)
        return in_turns(self._answer(response))

    def _answer(self, response: Response) -> Steps[Verdict]:
        api_key, version = response.request.api_key, response.request.api_version
        changed = False
        if api_key == ApiKey.METADATA or api_key in TELLING:
            forbidding = self._forbidding(response)
            codes: dict[str | None, int | None] = {}
            for number, topic in enumerate(topics_in(api_key, version, response.message, self.topic_names.get), 1):
                codes[topic] = forbidding(topic)
                if number % AT_ONCE == 0:
                    yield
            changed = self._hide(response, codes)
        message: Any = response.message
        for target, errors in response.request.kept.pop(KEPT, ()):
            setattr(message, target, [*getattr(message, target), *errors])
            changed = True
        return Replace(message) if changed else Forward()

    def _forbidding(self, response: Response) -> Callable[[str | None], int | None]:
        """Return a function: topic -> error code if the rules forbid it, else None.

        A topic of None has an id whose name is not known.
        """
        facts_ = response.request
        if facts_.message is None:
            raise ValueError("the request of a response that names topics could not be read")
        subject = Subject(facts_.request(response.connection, facts_.message), self.topic_names)
        enforced = (rule for rule in self._rules if not rule.dry_run and facts_.api_key in rule.apis)
        rules = [rule for rule in enforced if rule.condition.is_for_each_topic]

        def forbids(rule: Compiled, topic: str | None) -> bool:
            return rule.condition.may_hold(subject) if topic is None else rule.holds(subject, topic)

        def code(topic: str | None) -> int | None:
            if topic == "" or (topic is None and facts_.api_key == ApiKey.METADATA):
                return None  # it names none: the errors of Metadata for topics by id
            return next((rule.code(subject) for rule in rules if forbids(rule, topic)), None)

        return code

    def _hide(self, response: Response, codes: dict[str | None, int | None]) -> bool:
        """Remove the topics that have a code from a response, as brokers do; those that Metadata named by id get the code."""
        hidden = {topic for topic, code in codes.items() if code is not None}
        request = response.request
        if not hidden:
            return False
        if request.api_key in GROUPS:
            refuse_groups(request.api_key, request.api_version, response.message, codes, self.topic_names.get)
            return True
        if request.api_key != ApiKey.METADATA:
            without(request.api_key, request.api_version, response.message, hidden, self.topic_names.get)
            return True
        message: Any = response.message
        requested: Any = request.message
        by_id = {getattr(topic, "topic_id", None) for topic in requested.topics or () if topic.name is None}
        kept = []
        for topic in message.topics:
            code = codes.get(topic.name)
            if code is not None and getattr(topic, "topic_id", "") in by_id:
                topic.name, topic.partitions, topic.error_code = None, [], code
                kept.append(topic)
            elif code is None:
                kept.append(topic)
        message.topics = kept
        return True

    def on_close(self, connection: ConnectionFacts) -> None:
        """Forget the fetch sessions of the connection."""
        self._opened.forget(connection)

    def _say(self, rule: Compiled, request: Request, topics: list[Any], code: int) -> None:
        """Write the decision to the journal, or log it."""
        connection = request.connection
        event = "would be denied" if rule.dry_run else "denied"
        fields = {
            "event": event,
            "at": self.runtime.now(),
            "rule": rule.name,
            "error": CLOSE if rule.error == CLOSE else ErrorCode(code).name,
            "cluster": connection.cluster,
            "connection": connection.number,
            "client": connection.client,
            "principal": shortened(connection.principal),
            "clientId": shortened(request.client_id),
            "api": facts().apis[request.api_key].name,
            "apiVersion": request.api_version,
            "topics": that_fit([shortened(topic) for topic in topics[:MOST_RESOURCES]]),
        }
        line = json.dumps(fields, separators=(",", ":"))
        rule.count(self.runtime, event)
        if self._journal is None:
            left_out = rule.may_log(self.runtime.monotonic())
            if left_out is not None:
                more = f"{left_out} more since the last line; " if left_out else ""
                self.runtime.warn(event, f"{more}{line[:LONGEST_LOGGED]}")
            return
        self._write_late(self._journal)
        number, data = self._journal.take(), line.encode("ascii")
        if self._late or not self._journal.write(number, data):
            self._late.append((number, data))
            self._write_late(self._journal)

    def _write_late(self, journal: Journal) -> None:
        """Write the lines that the disk was too slow for; drop them where it takes nothing, or where they are too many."""
        while self._late and journal.write(*self._late[0]):
            self._late.popleft()
        while self._late and (not journal.is_late or len(self._late) > MOST_LATE):
            journal.drop(self._late.popleft()[0])


def _asks_for_brokers(request: Request) -> bool:
    """Return whether a request without topics is still useful: Metadata, except version 0, where no topics mean all.

    Its response names the brokers. Without it librdkafka takes all brokers as decommissioned, and may never see the error.
    """
    return request.api_key == ApiKey.METADATA and request.api_version > 0


def _is_unnamed(rule: Compiled, request: Request, subject: Subject) -> bool:
    """Return whether the rule is about topics and the request has a topic id with an unknown name, which nothing allows."""
    if request.api_key == ApiKey.METADATA or (rule.condition.is_for_each_topic and request.api_key in WITHOUT_NAMES):
        return False
    return rule.condition.needs_topics and not rule.dry_run and None in subject["topics"]


def _asked_about(
    rule: Compiled, request: Request, subject: Subject
) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Yield the topics that a rule is applied to, each with each of its records if it is about records."""
    for topic in _askable(request, subject):
        if not rule.condition.needs_records:
            yield topic, None
        else:
            yield from ((topic, record) for record in subject.records.get(topic, ()))


def _askable(request: Request, subject: Subject) -> list[str | None]:
    """Return the topics that rules are applied to. For some requests, the response names the others."""
    topics: list[str | None] = subject["topics"]
    if request.api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:  # not that of the cursor, from which the broker goes on
        message: Any = request.message
        return [topic.name for topic in message.topics]
    return [topic for topic in topics if topic is not None] if request.api_key in WITHOUT_NAMES else topics


def _has_topics(api_key: int) -> bool:
    return any(_topic_array(api_key, version) is not None for version in facts().apis[api_key].versions)


def _topic_array(api_key: int, api_version: int) -> Filled | None:
    """Return the array of the response with an element for each topic of an array of the request; None if there is none."""
    places = error_places(api_key, api_version, True)
    for filled in places.arrays if places is not None else ():
        source = filled.sources[0]
        named = {of or "name" for _, of in source.names}
        if len(source.path) == 1 and named & {"name", "topic", "topic_name", "topic_id"}:
            return filled
    return None

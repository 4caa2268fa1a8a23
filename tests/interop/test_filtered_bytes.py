"""Each filter alone between real clients and a broker: what it promises happens, and what it does not concern is byte-identical.

Recorders stand before kproxy and behind it. Each connection of a client is compared with kproxy's to the broker, frame by frame;
only the broker's address is another in responses.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import pack, unpack_from
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.protocol import ApiKey, message, response_header_version
from tests.interop.clients import Client, Java, Librdkafka, values
from tests.interop.test_filters import consumed
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT
from tests.support.ports import free_ports
from tests.support.recorder import HOST, Recorded, Recorder
from tests.support.sockets import metadata
from tests.support.stopping import Person

pytestmark = [
    pytest.mark.skipif(DIRECT, reason="is about what the proxy does"),
    pytest.mark.parametrize("single", [NEWEST], indirect=True),
]
COUNT = 20
IN_FLIGHT = 5  # frames that the end of a connection may cut off
OF_KPROXY = "kproxy"  # client id of its own requests
API_KEY, CORRELATION_ID = slice(4, 6), slice(8, 12)  # of a request
ANSWERED_ID = slice(4, 8)
SECRET, HIDDEN = b"canary@example.com", b'"***"'


class Topics(NamedTuple):
    """Of one run. Rules are about the first three."""

    people: str  # has JSON objects before the run begins
    special: str
    closed: str  # is not there
    plain: str
    special_id: bytes

    def are_in(self, frame: bytes) -> bool:
        """Whether a frame names *special*."""
        return self.special.encode() in frame or self.special_id in frame


class Concern(NamedTuple):
    """A frame, and what it is about."""

    api: int
    is_request: bool
    asked: bytes  # the request, also of a response
    frame: bytes
    topics: Topics


def nothing(_: Concern) -> bool:
    """A filter that changes nothing."""
    return False


def closed_topics(at: Concern) -> bool:
    return at.api == ApiKey.CREATE_TOPICS and at.topics.closed.encode() in at.asked


def special_records(at: Concern) -> bool:
    return at.is_request and at.api == ApiKey.PRODUCE and at.topics.are_in(at.frame)


def special_produced(at: Concern) -> bool:
    return at.api == ApiKey.PRODUCE and at.topics.are_in(at.asked)


def people_fetched(at: Concern) -> bool:
    """Requests ask for no more than kproxy can hold."""
    return at.api == ApiKey.FETCH and (at.is_request or SECRET in at.frame or HIDDEN in at.frame)


def slow_answered(at: Concern) -> bool:
    return not at.is_request and at.api == ApiKey.PRODUCE and at.topics.are_in(at.asked)


class Run(NamedTuple):
    """What a client did, and what came of it."""

    entrance: Entrance
    topics: Topics
    refused: str  # what it was told of the topic that is closed; "" if nothing
    people: list[bytes]  # values that it read
    before: Sequence[Recorded]
    behind: Sequence[Recorded]

    def frames(self, which: Sequence[Recorded], api: ApiKey, *, requests: bool = True) -> list[bytes]:
        """Frames of an API, of clients."""
        return [
            at.frame
            for connection in which
            for at in concerns(connection, self.topics)
            if at.api == api and at.is_request == requests
        ]

    def at_the_broker(self, topic: str) -> list[Message]:
        """The records of a topic, read past kproxy."""
        return consumed(self.entrance.cluster.open, topic, COUNT)

    def count(self, name: str, *parts: str) -> float:
        """A metric of kproxy."""
        assert self.entrance.proxy is not None
        return self.entrance.proxy.count(name, *parts)


def audited(run: Run, folder: Path) -> None:
    def told() -> list[Any]:
        text = "".join(part.read_text("ascii") for part in folder.glob("audit-*.jsonl"))
        lines = map(json.loads, text.splitlines())
        return [line for line in lines if {"type": "topic", "name": run.topics.closed} in line.get("resources", [])]

    eventually(lambda: [line["outcome"] for line in told() if line["api"] == "CreateTopics"] == ["done"], what="a line")


def denied(run: Run, folder: Path) -> None:
    assert any(said in run.refused for said in ("TOPIC_AUTHORIZATION_FAILED", "denied by a rule of the proxy"))
    assert run.topics.closed not in AdminClient({"bootstrap.servers": run.entrance.cluster.open}).list_topics().topics
    assert not any(run.topics.closed.encode() in frame for frame in run.frames(run.behind, ApiKey.CREATE_TOPICS))


def with_headers(run: Run, folder: Path) -> None:
    special, plain = run.at_the_broker(run.topics.special), run.at_the_broker(run.topics.plain)
    assert [dict(record.headers() or []).get("via") for record in special] == [b"headers"] * COUNT
    assert [record.headers() for record in plain] == [None] * COUNT
    assert sorted(record.value() or b"" for record in special) == sorted(values(COUNT))


def masked(run: Run, folder: Path) -> None:
    assert [json.loads(value) for value in run.people] == [{"number": n, "email": "***"} for n in range(COUNT)]
    assert all(SECRET in (record.value() or b"") for record in run.at_the_broker(run.topics.people))


def throttled(run: Run, folder: Path) -> None:
    def longest(which: Sequence[Recorded]) -> int:
        answers = [at for connection in which for at in concerns(connection, run.topics) if slow_answered(at)]
        return max(throttle_ms(at) for at in answers)

    assert longest(run.behind) == 0 < longest(run.before)


def throttle_ms(at: Concern) -> int:
    """Of a Produce response."""
    (version,) = unpack_from(">h", at.asked, 6)
    body = 4 + 4 + response_header_version(at.api, version)  # behind size, correlation id and tags
    return int(message("ProduceResponse").decode(version, at.frame, body).throttle_time_ms)


def failed_once(run: Run, folder: Path) -> None:
    assert run.count("kproxy_filter_events_total", 'cluster="faults"', 'event="fired"') >= 1
    before, behind = (
        [frame for frame in run.frames(which, ApiKey.PRODUCE) if run.topics.are_in(frame)]
        for which in (run.before, run.behind)
    )
    assert len(before) == len(behind) + 1
    assert sorted(record.value() or b"" for record in run.at_the_broker(run.topics.special)) == sorted(values(COUNT))


def read_along(run: Run, folder: Path) -> None:
    pushes = len(run.frames(run.before, ApiKey.PUSH_TELEMETRY))
    assert pushes > 0
    labels = 'cluster="telemetry"', 'event="pushes"'
    eventually(lambda: run.count("kproxy_filter_events_total", *labels) >= pushes, what="all pushes are shown")


def could_be_stopped(run: Run, folder: Path) -> None:
    assert run.entrance.proxy is not None
    assert Person(run.entrance.proxy).done("GET", "/stops")["stops"] == []


@dataclass(frozen=True)
class Case:
    """A filter with its options, what it concerns, and whether it did what it promises."""

    name: str
    options: dict[str, Any] | None
    concerns: Callable[[Concern], bool]
    check: Callable[[Run, Path], None]


CASES = (
    Case("audit", {}, nothing, audited),
    Case(
        "deny", {"rules": [{"when": 'topic.startsWith("closed")', "api_name": ["CreateTopics"]}]}, closed_topics, denied
    ),
    Case("headers", {"topics": ["special-*"], "cluster": "via"}, special_records, with_headers),
    Case("mask", {"rules": [{"topics": ["people-*"], "fields": ["$.email"]}]}, people_fetched, masked),
    Case(
        "throttle", {"limits": [{"by": "topic", "match": "special-*", "produce_bytes": 100}]}, slow_answered, throttled
    ),
    Case(
        "faults",
        {
            "faults": [
                {"api": "Produce", "topic": f"special-*-{name}-*", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}
                for name in ("librdkafka", "java")
            ]
        },
        special_produced,
        failed_once,
    ),
    Case("telemetry", {"mode": "tap"}, nothing, read_along),
    Case("breakpoints", None, nothing, could_be_stopped),
)
BEYOND = "beyond"  # takes what clients measure, as a broker with a plugin does


@dataclass
class Recording:
    """Every case's proxy, with recorders before and behind it."""

    single: Cluster
    folder: Path
    recorder: Recorder
    proxies: dict[str, Proxy]
    before: dict[str, int]  # ports of the recorders
    behind: dict[str, int]
    advertised: dict[str, bytes]  # what broker-side responses have for an address

    def entrance(self, case: str) -> Entrance:
        return Entrance(self.single, f"{HOST}:{self.before[case]}", PLAINTEXT, self.proxies[case])


def address(text: str) -> bytes:
    """As responses have it: a host, and the port behind it."""
    host, _, port = text.rpartition(":")
    return host.encode() + pack(">i", int(port))


@pytest.fixture(scope="module")
def recording(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    folder = tmp_path_factory.mktemp("filtered")
    with Recorder() as recorder:
        made = Recording(single, folder, recorder, {}, {}, {}, {})
        beyond = virtual_cluster(
            single.bootstrap("PLAIN"), name=BEYOND, filters=[{"use": "telemetry", "with": {"push_interval": "1s"}}]
        )
        started = [Proxy(folder / BEYOND, [beyond]).start()]
        targets = {case.name: single.bootstrap("PLAIN")[0] for case in CASES} | {"telemetry": started[0].bootstrap()}
        clusters = {}
        for case in CASES:
            ((node, told),) = metadata(targets[case.name]).brokers.items()
            made.before[case.name], made.behind[case.name] = free_ports(), recorder.listen(targets[case.name])
            made.advertised[case.name] = address(told)
            options = {"file": {"path": str(folder / "audit.jsonl")}} if case.name == "audit" else case.options
            clusters[case.name] = virtual_cluster(
                [f"{HOST}:{made.behind[case.name]}"],
                name=case.name,
                addresses={"advertise_brokers": {str(node): f"{HOST}:{made.before[case.name]}"}},
                filters=[] if options is None else [{"use": case.name, "with": options}],
            )
        stops = clusters.pop("breakpoints")
        try:
            started.append(Proxy(folder / "filters", list(clusters.values())).start())
            made.proxies = dict.fromkeys(clusters, started[-1])
            started.append(Proxy(folder / "stops", [stops], page={"edits": True}).start())
            made.proxies["breakpoints"] = started[-1]
            for number, name in enumerate(clusters):
                recorder.listen(made.proxies[name].bootstrap(number), made.before[name])
            recorder.listen(started[-1].bootstrap(), made.before["breakpoints"])
            yield made
        finally:
            for proxy in started:
                proxy.close()


def concerns(connection: Recorded, topics: Topics) -> Iterator[Concern]:
    """The frames of a connection: requests, then responses. One that answers no request there fails the test."""
    asked = {frame[CORRELATION_ID]: frame for frame in connection.requests()}
    for frame in connection.requests():
        yield Concern(int.from_bytes(frame[API_KEY], "big"), True, frame, frame, topics)
    for frame in connection.responses():
        request = asked[frame[ANSWERED_ID]]
        yield Concern(int.from_bytes(request[API_KEY], "big"), False, request, frame, topics)


class Rest(NamedTuple):
    """The frames of a connection that a filter does not concern."""

    requests: list[bytes]
    responses: list[bytes]


def rest(connection: Recorded, case: Case, topics: Topics) -> Rest:
    frames = [at for at in concerns(connection, topics) if not case.concerns(at)]
    return Rest([at.frame for at in frames if at.is_request], [at.frame for at in frames if not at.is_request])


def difference(before: Rest, behind: Rest) -> str:
    """How they differ, beyond what the end of a connection cuts off."""
    for what, longer, shorter in (
        ("request", before.requests, behind.requests),
        ("response", behind.responses, before.responses),
    ):
        if not len(shorter) <= len(longer) <= len(shorter) + IN_FLIGHT:
            return f"{len(longer)} and {len(shorter)} {what}s"
        for number, (one, other) in enumerate(zip(longer, shorter, strict=False)):
            if one != other:
                return f"{what} {number}: {one.hex()} and {other.hex()}"
    return ""


def differences(case: Case, run: Run, broker: bytes, proxy: bytes) -> list[str]:
    """Where no connection behind kproxy has what one before it has; and what kproxy has asked that no client did."""
    left = [rest(connection, case, run.topics) for connection in run.behind]
    left = [each._replace(responses=[frame.replace(broker, proxy) for frame in each.responses]) for each in left]
    told = []
    for connection in sorted(run.before, key=lambda one: -len(one.asked)):
        one = rest(connection, case, run.topics)
        if not connection.requests():
            continue
        found = next((other for other in left if not difference(one, other)), None)
        if found is None:
            told += [max((difference(one, other) for other in left), key=len, default="no connection")]
        else:
            left.remove(found)
    return told + [f"asked by no client: {each.requests}" for each in left if each.requests]


def made_topics(cluster: Cluster, mark: str) -> Topics:
    people, special, plain = (cluster.topic(f"{kind}-{mark}") for kind in ("people", "special", "plain"))
    producer = Producer({"bootstrap.servers": cluster.open})
    for number in range(COUNT):
        producer.produce(people, json.dumps({"number": number, "email": SECRET.decode()}))
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.open})
    told = admin.describe_topics(TopicCollection([special]))[special].result(30).topic_id
    parts = told.get_most_significant_bits(), told.get_least_significant_bits()
    return Topics(people, special, f"closed-{mark}", plain, b"".join(pack(">Q", part % (1 << 64)) for part in parts))


def create(client: Client, entrance: Entrance, topic: str) -> str:
    """Create a topic; returns what went wrong."""
    if isinstance(client, Java):
        words = ("--bootstrap-server", entrance.bootstrap, "--create", "--topic", topic)
        said = run_tool(entrance.release, "org.apache.kafka.tools.TopicCommand", *words, expect=None)
        return "" if f"Created topic {topic}" in said else said
    admin = AdminClient({"bootstrap.servers": entrance.bootstrap})
    (future,) = admin.create_topics([NewTopic(topic, 1)]).values()
    try:
        future.result(30)
    except KafkaException as error:
        return str(error.args[0])
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(
    "client", [Librdkafka(), pytest.param(Java(), marks=pytest.mark.long)], ids=["librdkafka", "java"]
)
def test_what_a_filter_does_not_concern_is_byte_identical(recording: Recording, client: Client, case: Case) -> None:
    entrance = recording.entrance(case.name)
    topics = made_topics(recording.single, f"{case.name}-{client.name}-{uuid4().hex[:8]}")
    begun = [len(recording.recorder.connections(side[case.name])) for side in (recording.before, recording.behind)]
    # What the other does by default: Java's tool never retries, librdkafka does not push what it measures
    settings = {"retries": "5"} if isinstance(client, Java) else {"enable_metrics_push": "true"}
    refused = create(client, entrance, topics.closed)
    for topic in (topics.special, topics.plain):
        assert client.produce(entrance, topic, COUNT, **settings) == COUNT
    assert sorted(client.consume(entrance, topics.plain, COUNT)) == sorted(values(COUNT))
    people = client.consume(entrance, topics.people, COUNT)

    def recorded(side: dict[str, int], first: int) -> list[Recorded]:
        came = recording.recorder.connections(side[case.name])[first:]
        return [one for one in came if one.client_id() != OF_KPROXY]

    before, behind = recorded(recording.before, begun[0]), recorded(recording.behind, begun[1])
    assert (refused == "") == (case.name != "deny"), refused
    run = Run(entrance, topics, refused, people, before, behind)
    sides = recording.advertised[case.name], address(entrance.bootstrap)
    with contextlib.suppress(TimeoutError):  # some are on their way
        eventually(lambda: not differences(case, run, *sides), what="the same")
    assert differences(case, run, *sides) == []
    assert sum(len(rest(one, case, topics).responses) for one in before) > COUNT
    case.check(run, recording.folder)

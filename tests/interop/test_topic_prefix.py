"""Two tenants behind one proxy and one broker, and a way past the proxy to see what the broker has.

Real clients say what they see; what no client would ask is asked with a socket.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.protocol import message, response_header_version
from kproxy.protocol.error_codes import ErrorCode
from tests.interop.clients import Client, Java, Librdkafka
from tests.support.frames import batch
from tests.support.frames import record as record_of
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.messages import make
from tests.support.sockets import Wire

pytestmark = pytest.mark.skipif(DIRECT, reason="is about what the proxy does to names")
TENANTS = ("a.", "b.")
NEWEST_ONLY = pytest.mark.parametrize("single", [NEWEST], indirect=True)
LATEST_FETCH = 13
BATCH_HEADER = 61  # bytes
BOTH = pytest.mark.parametrize(
    "client", [pytest.param(Java(), id="java", marks=pytest.mark.slow), pytest.param(Librdkafka(), id="librdkafka")]
)


class Asker:
    """A connection to one address, over which requests go as objects."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.wire = Wire(bootstrap)

    def close(self) -> None:
        self.wire.close()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """The decoded response to a request with these fields; dicts stand for structs."""
        request, response = message(f"{api}Request"), message(f"{api}Response")
        body = request.encode(version, make(request.name, **fields))
        flexible = version in request.flexible_versions
        assert request.api_key is not None
        try:
            answer = self.wire.ask(request.api_key, version, body, tags=b"\0" if flexible else b"")
        except EOFError:
            self.close()
            self.wire = Wire(self._bootstrap)
            raise
        return response.decode(version, answer, response_header_version(request.api_key, version))


class Tenants:
    """The ways to one broker: those of two tenants, and the one past the proxy."""

    def __init__(self, cluster: Cluster, proxy: Proxy) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self._askers = [Asker(proxy.bootstrap(0)), Asker(proxy.bootstrap(1)), Asker(cluster.open)]

    def entrance(self, number: int) -> Entrance:
        return Entrance(self.cluster, self.proxy.bootstrap(number), proxy=self.proxy)

    def ask(self, number: int) -> Asker:
        return self._askers[number]

    def straight(self) -> Asker:
        return self._askers[-1]

    def close(self) -> None:
        for asker in self._askers:
            asker.close()
        self.proxy.close()

    def topic(self, number: int, name: str) -> str:
        """Make a topic as a tenant, and wait until the broker knows it; returns its id.

        The controller has it when it answers; the broker reads that from the controller's log a moment later.
        """
        made = self.ask(number).ask(
            "CreateTopics", 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}], timeout_ms=20_000
        )
        assert [(each.name, each.error_code) for each in made.topics] == [(name, 0)]
        eventually(lambda: TENANTS[number] + name in topics(self.straight()), what=f"the broker knows {name}")
        return str(made.topics[0].topic_id)


@pytest.fixture(scope="module")
def tenants(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    clusters = [
        virtual_cluster(
            single.bootstrap(), name=prefix[:-1], filters=[{"use": "topic_prefix", "with": {"prefix": prefix}}]
        )
        for prefix in TENANTS
    ]
    proxy = Proxy(tmp_path_factory.mktemp("tenants"), clusters, workers=2).start()
    found = Tenants(single, proxy)
    yield found
    found.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:10]}"


def topics(asker: Asker) -> set[str]:
    return {topic.name for topic in asker.ask("Metadata", 12, topics=None).topics}


@BOTH
def test_the_same_names_are_different_topics_and_groups(tenants: Tenants, client: Client, name: str) -> None:
    for number, count in ((0, 30), (1, 20)):
        tenants.topic(number, name)
        assert client.produce(tenants.entrance(number), name, count) == count
    for number, count in ((0, 30), (1, 20)):
        read = client.consume(tenants.entrance(number), name, count)
        assert read == [str(each).encode() for each in range(count)]
        assert name in topics(tenants.ask(number))
    assert {f"a.{name}", f"b.{name}"} <= topics(tenants.straight())
    groups = {group.group_id for group in tenants.straight().ask("ListGroups", 4).groups}
    assert {f"{prefix}{client.name}-{name}" for prefix in TENANTS} <= groups
    own = [group.group_id for group in tenants.ask(0).ask("ListGroups", 4).groups]
    assert f"{client.name}-{name}" in own
    assert not [group for group in own if group.startswith(TENANTS)]


def raw(asker: Asker, api: str, version: int, fields: dict[str, Any]) -> bytes:
    """The bytes of a response, its header left out."""
    request = message(f"{api}Request")
    assert request.api_key is not None
    flexible = version in request.flexible_versions
    body = request.encode(version, make(request.name, **fields))
    answer = asker.wire.ask(request.api_key, version, body, tags=b"\0" if flexible else b"")
    return answer[response_header_version(request.api_key, version) :]


@NEWEST_ONLY
def test_what_is_no_name_is_byte_for_byte_the_brokers(tenants: Tenants, name: str) -> None:
    """Asked in the tenant's words, the broker's own answer differs in nothing but the prefixes."""
    topic_id = tenants.topic(0, name)
    for count in (50, 40):
        assert Librdkafka().produce(tenants.entrance(0), name, count, compression_type="lz4") == count
    Java().consume(tenants.entrance(0), name, 90)

    def questions(prefix: str) -> dict[tuple[str, int], dict[str, Any]]:
        topic, group = f"{prefix}{name}", f"{prefix}java-{name}"
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fetch = {"max_wait_ms": 10, "session_epoch": -1, "isolation_level": 1}
        offsets = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        epochs = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]}]
        configs = [{"resource_type": 2, "resource_name": topic}, {"resource_type": 4, "resource_name": "1"}]
        committed = [{"group_id": group, "topics": None}]
        of_partition = [{"name": topic, "partition_indexes": [0]}]
        return {
            **{
                ("Fetch", v): {"max_wait_ms": 10, "topics": [{"topic": topic, "partitions": [partition]}]}
                for v in (4, 6)
            },
            **{("Fetch", v): {**fetch, "topics": [{"topic": topic, "partitions": [partition]}]} for v in (7, 11, 12)},
            **{
                ("Fetch", v): {**fetch, "topics": [{"topic_id": topic_id, "partitions": [partition]}]} for v in (13, 17)
            },
            **{("ListOffsets", v): {"topics": offsets} for v in (1, 5, 10)},
            **{("OffsetFetch", v): {"groups": committed} for v in (8, 9)},
            ("OffsetForLeaderEpoch", 4): {"topics": epochs},
            ("DescribeConfigs", 4): {"resources": configs, "include_synonyms": True, "include_documentation": True},
            ("DescribeGroups", 5): {"groups": [group]},
            ("DescribeProducers", 0): {"topics": of_partition},
            ("DescribeTopicPartitions", 0): {"topics": [{"name": topic}]},
            ("DescribeClientQuotas", 1): {},
            ("DescribeUserScramCredentials", 0): {},
        }

    own = questions("")
    for (api, version), asked in questions("a.").items():
        brokers = raw(tenants.straight(), api, version, asked)
        clients = raw(tenants.ask(0), api, version, own[api, version])
        assert renamed(api, version, brokers) == clients, (api, version)


def renamed(api: str, version: int, body: bytes) -> bytes:
    """A response's bytes with "a." taken off every string that begins with it."""
    codec = message(f"{api}Response")
    value: Any = codec.decode(version, body)
    rename(value)
    if api == "DescribeGroups":
        for member in value.groups[0].members:
            member.member_metadata = unprefixed(member.member_metadata)
            member.member_assignment = unprefixed(member.member_assignment)
    return codec.encode(version, value)


def rename(struct: Any) -> None:
    for field in struct.fields:
        value = getattr(struct, field.attribute)
        if field.is_struct:
            for each in value if isinstance(value, list) else [value] if value else []:
                rename(each)
        elif isinstance(value, str):
            setattr(struct, field.attribute, value.removeprefix("a."))


def unprefixed(data: bytes) -> bytes:
    """A subscription or an assignment whose first text is one topic's, without "a."."""
    size = int.from_bytes(data[6:8], "big") if data else 0
    return data[:6] + (size - 2).to_bytes(2, "big") + data[10:] if size else data


@NEWEST_ONLY
def test_no_tenant_sees_kafkas_own_topics(tenants: Tenants) -> None:
    assert "__consumer_offsets" in topics(tenants.straight())
    assert not {topic for topic in topics(tenants.ask(0)) if topic.startswith("__")}


def test_another_tenants_topic_cannot_be_reached_by_its_id(tenants: Tenants, name: str) -> None:
    secret = tenants.topic(1, name)
    Librdkafka().produce(tenants.entrance(1), name, 3)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = {"max_wait_ms": 10, "topics": [{"topic_id": secret, "partitions": [partition]}]}
    assert len(tenants.ask(1).ask("Fetch", LATEST_FETCH, **asked).responses[0].partitions[0].records) > BATCH_HEADER
    refused = tenants.ask(0).ask("Fetch", LATEST_FETCH, **asked)
    missing = {"max_wait_ms": 10, "topics": [{"topic_id": "B" * 21 + "A", "partitions": [partition]}]}
    unknown = tenants.straight().ask("Fetch", LATEST_FETCH, **missing)  # as of an id that no topic has
    assert unknown.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    unknown.responses[0].topic_id = secret
    assert (refused.error_code, refused.responses) == (unknown.error_code, unknown.responses)
    by_id = {"topics": [{"name": None, "topic_id": secret}], "timeout_ms": 20_000}
    (undeleted,) = tenants.ask(0).ask("DeleteTopics", 6, **by_id).responses
    assert (undeleted.topic_id, undeleted.error_code) == (secret, ErrorCode.UNKNOWN_TOPIC_ID)
    record = {"index": 0, "records": batch(record_of(None, b"x"), 1)}
    produce = {"acks": -1, "timeout_ms": 9_000, "topic_data": [{"topic_id": secret, "partition_data": [record]}]}
    if tenants.cluster.release >= "4":
        (topic,) = tenants.ask(0).ask("Produce", 13, **produce).responses
        assert [each.error_code for each in topic.partition_responses] == [ErrorCode.UNKNOWN_TOPIC_ID]
        (topic,) = tenants.ask(1).ask("Produce", 13, **produce).responses
        assert [(each.error_code, each.base_offset) for each in topic.partition_responses] == [(0, 3)]
    (found,) = tenants.ask(0).ask("Metadata", 12, topics=[{"name": None, "topic_id": secret}]).topics
    assert (found.error_code, found.name, found.topic_id, found.partitions) == (
        ErrorCode.UNKNOWN_TOPIC_ID,
        None,
        secret,
        [],
    )
    (nothing,) = tenants.ask(0).ask("Metadata", 12, topics=[{"name": None, "topic_id": "B" * 21 + "A"}]).topics
    nothing.topic_id = secret
    assert nothing == found  # as of an id that no topic has
    assert name in topics(tenants.ask(1))


@NEWEST_ONLY
def test_another_tenants_fetch_session_cannot_be_used(tenants: Tenants, name: str) -> None:
    secret = tenants.topic(1, name)
    Librdkafka().produce(tenants.entrance(1), name, 1)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = {"max_wait_ms": 10, "topics": [{"topic_id": secret, "partitions": [partition]}]}
    straight = tenants.straight().ask("Fetch", LATEST_FETCH, session_id=0, session_epoch=0, **asked)
    assert straight.session_id != 0  # the broker grants one
    stolen = {"max_wait_ms": 10, "session_id": straight.session_id, "session_epoch": 1}
    answer = tenants.ask(0).ask("Fetch", LATEST_FETCH, **stolen)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    assert tenants.straight().ask("Fetch", LATEST_FETCH, **stolen).error_code == 0  # which looks at nothing else
    through = tenants.ask(1).ask("Fetch", LATEST_FETCH, session_id=0, session_epoch=0, **asked)
    assert (through.error_code, through.session_id) == (0, 0)


@NEWEST_ONLY
def test_a_large_fetch_with_names_is_cut_to_what_can_be_held(tenants: Tenants, name: str) -> None:
    """Above limits.held_frame_size, 16 MiB, the connection would be closed, each time that a client asks again."""
    megabyte, count = 1 << 20, 20
    tenants.topic(0, name)
    produce = Producer({"bootstrap.servers": tenants.proxy.bootstrap(0), "message.max.bytes": 2 * megabyte})
    for _ in range(count):
        produce.produce(name, bytes(megabyte - 1_000))
        produce.flush(60)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 64 * megabyte}
    asked = {"max_wait_ms": 10, "max_bytes": 64 * megabyte, "session_epoch": -1}

    def size(asker: Asker, topic: str) -> int:
        answer = asker.ask("Fetch", 12, **asked, topics=[{"topic": topic, "partitions": [partition]}])
        (found,) = answer.responses[0].partitions
        assert found.error_code == 0
        return len(found.records)

    assert size(tenants.straight(), f"a.{name}") > 18 * megabyte
    assert 6 * megabyte < size(tenants.ask(0), name) <= 8 * megabyte


@NEWEST_ONLY
def test_regular_expressions_stay_in_the_tenant(tenants: Tenants, name: str) -> None:
    own = tenants.topic(0, name)
    other = tenants.topic(1, name)

    def assigned(regex: str) -> set[str]:
        asker, member = tenants.ask(0), str(uuid.uuid4())
        group = {"group_id": f"g{uuid.uuid4().hex}", "member_id": member}
        joined = asker.ask(
            "ConsumerGroupHeartbeat",
            1,
            **group,
            rebalance_timeout_ms=30_000,
            subscribed_topic_regex=regex,
            subscribed_topic_names=[],
            server_assignor=None,
            topic_partitions=[],
        )
        assert joined.error_code == 0, joined
        epoch, found = joined.member_epoch, joined.assignment

        def has_some() -> bool:
            nonlocal epoch, found
            beat = asker.ask("ConsumerGroupHeartbeat", 1, **group, member_epoch=epoch)
            epoch, found = beat.member_epoch, beat.assignment or found
            return bool(found and found.topic_partitions)

        eventually(has_some, what=f"topics are assigned for {regex}")
        (shown,) = asker.ask("ConsumerGroupDescribe", 1, group_ids=[group["group_id"]]).groups
        assert [each.subscribed_topic_regex for each in shown.members] == [regex]
        return {each.topic_id for each in found.topic_partitions}

    for regex in (f"{name}.*", f"^{name}$", f"x|{name}|b[.].*", rf"(\A{name}|b.*)"):
        assert assigned(regex) == {own}, regex
    everything = assigned(".*")
    assert own in everything
    assert other not in everything
    for regex in ("x)|(.*", "[", r"x\\)|(.*\\"[:-1], "a^b"):
        refused = tenants.ask(0).ask(
            "ConsumerGroupHeartbeat",
            1,
            group_id="g",
            member_id=str(uuid.uuid4()),
            rebalance_timeout_ms=30_000,
            subscribed_topic_regex=regex,
            subscribed_topic_names=[],
            topic_partitions=[],
        )
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION, regex


@NEWEST_ONLY
def test_a_name_that_is_too_long_with_its_prefix_is_invalid(tenants: Tenants) -> None:
    fits, long = "x" * 247, "x" * 248
    asked = [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in (fits, long, "..", "")]
    made = tenants.ask(0).ask("CreateTopics", 7, topics=asked, timeout_ms=20_000)
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert {each.name: each.error_code for each in made.topics} == {fits: 0, long: invalid, "..": invalid, "": invalid}
    said = "".join(each.error_message or "" for each in made.topics)
    assert "a." not in said

    def told() -> dict[str, int]:
        found = tenants.ask(0).ask("Metadata", 12, topics=[{"name": each} for each in (fits, long)])
        return {each.name: each.error_code for each in found.topics}

    eventually(lambda: told() == {fits: 0, long: invalid}, what="the broker knows the one that fits")


@NEWEST_ONLY
def test_an_error_message_has_the_clients_name(tenants: Tenants, name: str) -> None:
    tenants.topic(0, name)
    again = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 20_000}
    (refused,) = tenants.ask(0).ask("CreateTopics", 7, **again).topics
    assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.error_message == f"Topic '{name}' already exists."


ACL = {"principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
ANY_ACL = {"principal_filter": "User:x", "host_filter": None, "operation": 1, "permission_type": 1}


def acls(asker: Asker, kind: int = 1, name: str | None = None, pattern: int = 1) -> list[tuple[int, str, int]]:
    asked = {"resource_type_filter": kind, "resource_name_filter": name, "pattern_type_filter": pattern}
    found = asker.ask("DescribeAcls", 3, **asked, **ANY_ACL)
    assert found.error_code == 0, found
    return sorted((each.resource_type, each.resource_name, each.pattern_type) for each in found.resources)


@NEWEST_ONLY
def test_acls_are_on_names_of_the_tenant(tenants: Tenants, name: str) -> None:
    topic, group, any_type, match, literal, prefixed = 2, 3, 1, 2, 3, 4

    def make(asker: Asker, *patterns: tuple[int, str, int]) -> None:
        creations = [
            {"resource_type": kind, "resource_name": of, "resource_pattern_type": pattern, **ACL}
            for kind, of, pattern in patterns
        ]
        assert [each.error_code for each in asker.ask("CreateAcls", 3, creations=creations).results] == [0] * len(
            patterns
        )

    def delete(asker: Asker, kind: int, of: str | None, pattern: int) -> tuple[int, list[str]]:
        asked = {"resource_type_filter": kind, "resource_name_filter": of, "pattern_type_filter": pattern, **ANY_ACL}
        (result,) = asker.ask("DeleteAcls", 3, filters=[asked]).filter_results
        return result.error_code, sorted(each.resource_name for each in result.matching_acls)

    make(tenants.straight(), (topic, "*", literal), (topic, "a", prefixed))  # the cluster's own
    mine = [(topic, name, literal), (topic, "*", literal), (topic, name[:3], prefixed), (group, name, literal)]
    make(tenants.ask(0), *mine)
    make(tenants.ask(1), *mine)
    own, other, all_of_them = tenants.ask(0), tenants.ask(1), tenants.straight()
    try:
        # The controller has them; the broker reads its log a moment later
        eventually(lambda: acls(own) == acls(other) == sorted(mine), what="the broker has the ACLs")
        assert acls(own, topic, name, match) == sorted(mine[:3])
        assert acls(own, topic, name, literal) == [mine[0]]
        assert acls(own, topic, None, prefixed) == [mine[2]]
        assert acls(own, any_type, "*", literal) == [mine[1]]
        assert (topic, "a.", prefixed) in acls(all_of_them)
        assert delete(own, topic, None, 1)[0] == ErrorCode.INVALID_REQUEST
        assert delete(own, any_type, name, match) == (0, sorted(["*", name, name, name[:3]]))
        eventually(lambda: acls(own) == [], what="they are gone")
        assert acls(other) == sorted(mine)
        assert {(topic, "*", literal), (topic, "a", prefixed)} <= set(acls(all_of_them))
    finally:
        delete(all_of_them, 1, None, 1)


@NEWEST_ONLY
def test_configurations_are_those_of_the_tenants_topics(tenants: Tenants, name: str) -> None:
    tenants.topic(0, name)
    change = {"name": "retention.ms", "config_operation": 0, "value": "777000"}
    resource = {"resource_type": 2, "resource_name": name}
    for number, error in ((0, 0), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        (done,) = (
            tenants.ask(number)
            .ask("IncrementalAlterConfigs", 1, resources=[{**resource, "configs": [change]}])
            .responses
        )
        assert (done.resource_name, done.error_code) == (name, error)
    asked = [{**resource, "configuration_keys": ["retention.ms"]}, {"resource_type": 4, "resource_name": "1"}]

    def described() -> tuple[Any, Any]:  # by the broker, which reads what the controller has changed a moment later
        first, second = tenants.ask(0).ask("DescribeConfigs", 4, resources=asked).results
        assert (first.resource_name, [each.value for each in first.configs]) == (name, ["777000"])
        return first, second

    _, second = eventually(described, what="the broker has the change")
    assert (second.resource_type, second.resource_name, second.error_code) == (4, "1", 0)
    if tenants.cluster.release >= "4.1":
        named = {
            each.resource_name
            for each in tenants.ask(0).ask("ListConfigResources", 1, resource_types=[2, 4]).config_resources
        }
        assert {name, "1"} <= named
        assert not [each for each in named if each.startswith((*TENANTS, "__"))]


@NEWEST_ONLY
def test_a_listing_of_all_topics_has_pages_of_the_tenants(tenants: Tenants, name: str) -> None:
    for number in (0, 1):
        for end in "xyz":
            tenants.topic(number, f"{name}{end}")
    seen: list[str] = []
    cursor: dict[str, Any] | None = None
    asker = tenants.ask(0)
    while True:
        page = asker.ask("DescribeTopicPartitions", 0, topics=[], response_partition_limit=1, cursor=cursor)
        seen += [topic.name for topic in page.topics]
        if page.next_cursor is None:
            break
        cursor = {"topic_name": page.next_cursor.topic_name, "partition_index": page.next_cursor.partition_index}
    assert [each for each in seen if each.startswith(name)] == [f"{name}{end}" for end in "xyz"]
    assert set(seen) == topics(tenants.ask(0))


@NEWEST_ONLY
def test_transactions_are_listed_for_their_tenant(tenants: Tenants, name: str) -> None:
    for number in (0, 1):
        started = tenants.ask(number).ask("InitProducerId", 4, transactional_id=name, transaction_timeout_ms=30_000)
        assert started.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR), started
    listed = [each.transactional_id for each in tenants.ask(0).ask("ListTransactions", 1).transaction_states]
    assert not [each for each in listed if each.startswith(TENANTS)]


@NEWEST_ONLY
@pytest.mark.parametrize("api", ["WriteTxnMarkers", "Envelope", "FetchSnapshot"])
def test_what_brokers_say_to_each_other_is_refused_and_not_offered(tenants: Tenants, api: str) -> None:
    request = message(f"{api}Request")
    version = request.versions.highest
    offered = {each.api_key for each in tenants.ask(0).ask("ApiVersions", 3).api_keys}
    assert request.api_key not in offered
    fields: dict[str, Any] = {"request_data": b"", "client_host_address": b""} if api == "Envelope" else {}
    with pytest.raises(EOFError):
        tenants.ask(0).ask(api, version, **fields)

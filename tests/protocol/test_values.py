"""Special values: against what Kafka's own classes print, and against the fields that the facts know."""

from collections.abc import Iterator

from kproxy.protocol import facts
from kproxy.protocol.facts import Field
from kproxy.protocol.values import describe, render_time_ms, value_set, value_sets

# The constants and enums of Kafka 4.3.1 (TransactionState of the coordinator's jar, ZkMigrationState of 3.9.2),
# printed by a Java program: ids or codes, and names.
FROM_KAFKA = {
    ("ListOffsetsRequest", "timestamp"): {-1: "latest", -2: "earliest", -3: "max timestamp", -4: "earliest local"}
    | {-5: "latest tiered", -6: "earliest pending upload"},
    ("FetchRequest", "isolationLevel"): {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"},
    ("CreateAclsRequest", "resourceType"): {0: "UNKNOWN", 1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER"}
    | {5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"},
    ("DescribeConfigsRequest", "resourceType"): {0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER"}
    | {16: "CLIENT_METRICS", 32: "GROUP"},
    ("DescribeAclsResponse", "patternType"): {0: "UNKNOWN", 1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"},
    ("DescribeAclsResponse", "operation"): {0: "UNKNOWN", 2: "ALL", 9: "CLUSTER_ACTION", 15: "TWO_PHASE_COMMIT"},
    ("DescribeAclsResponse", "permissionType"): {0: "UNKNOWN", 1: "ANY", 2: "DENY", 3: "ALLOW"},
    ("DescribeConfigsResponse", "configSource"): {1: "TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG"}
    | {3: "DYNAMIC_DEFAULT_BROKER_CONFIG", 4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG"}
    | {6: "DYNAMIC_BROKER_LOGGER_CONFIG", 7: "CLIENT_METRICS_CONFIG", 8: "GROUP_CONFIG"},
    ("DescribeConfigsResponse", "configType"): {1: "BOOLEAN", 3: "INT", 4: "SHORT", 8: "CLASS", 9: "PASSWORD"},
    ("IncrementalAlterConfigsRequest", "configOperation"): {0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT"},
    ("FindCoordinatorRequest", "keyType"): {0: "GROUP", 1: "TRANSACTION", 2: "SHARE"},
    ("ElectLeadersRequest", "electionType"): {0: "PREFERRED", 1: "UNCLEAN"},
    ("UpdateFeaturesRequest", "upgradeType"): {1: "UPGRADE", 2: "SAFE_DOWNGRADE", 3: "UNSAFE_DOWNGRADE"},
    ("ShareFetchRequest", "acknowledgeTypes"): {1: "ACCEPT", 2: "RELEASE", 3: "REJECT", 4: "RENEW"},
    ("DescribeClusterRequest", "endpointType"): {0: "UNKNOWN", 1: "BROKER", 2: "CONTROLLER"},
    ("StreamsGroupHeartbeatResponse", "statusCode"): {0: "STALE_TOPOLOGY", 5: "ASSIGNMENT_DELAYED"},
    ("TransactionLogValue", "transactionStatus"): {0: "EMPTY", 2: "PREPARE_COMMIT", 7: "PREPARE_EPOCH_FENCE"},
    ("ConsumerGroupCurrentMemberAssignmentValue", "state"): {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 127: "UNKNOWN"},
    ("StreamsGroupCurrentMemberAssignmentValue", "state"): {1: "STABLE", 2: "UNREVOKED_TASKS"},
    ("ZkMigrationStateRecord", "zkMigrationState"): {0: "NONE", 1: "MIGRATION", 2: "PRE_MIGRATION", 4: "ZK"},
    ("BrokerRegistrationChangeRecord", "fenced"): {1: "FENCE", 0: "NONE", -1: "UNFENCE"},
    ("BrokerRegistrationRequest", "securityProtocol"): {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"},
    ("PushTelemetryRequest", "compressionType"): {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"},
}


def test_values_have_the_names_that_kafkas_classes_give_them() -> None:
    for (message, field), names in FROM_KAFKA.items():
        assert {value: describe(message, field, value) for value in names} == names, message


def every_field() -> Iterator[tuple[str, tuple[str, ...], Field]]:
    """(message, path, field) of every field in every layout."""

    def below(
        message: str, fields: tuple[Field, ...], path: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...], Field]]:
        for field in fields:
            here = (*path, field.json_name)
            yield message, here, field
            yield from below(message, field.fields, here)

    for message in facts().messages():
        for layout in facts().layouts(message):
            yield from below(message, layout.fields, ())


FIELDS = list(every_field())
RESERVED = {"reason", "error"}  # client assignor fields of the KIP-848 preview that nothing ever set


def test_every_place_in_the_table_exists_in_the_facts() -> None:
    exact = {(message, path[-1]) for message, path, _ in FIELDS}
    exact |= {(message, ".".join(path[-2:])) for message, path, _ in FIELDS}
    names = {name for _, name in exact}
    for values in value_sets().values():
        for message, name in values.fields:
            assert (name in names) if message == "*" else ((message, name) in exact), (values.name, message, name)


def test_every_int8_means_something() -> None:
    small = {(message, path) for message, path, field in FIELDS if field.type == "int8" and path[-1] not in RESERVED}
    assert not [place for place in small if value_set(place[0], place[1][-2:]) is None]


def fits(value: str, field: Field) -> bool:
    """Whether a value of the table can stand in a field."""
    kind = {"n": "null", "t": "bool", "f": "bool", '"': "string"}.get(value[0], "int")
    return bool(field.nullable) or field.is_struct if kind == "null" else field.type.startswith(kind)


def test_every_field_with_special_values_can_hold_one() -> None:
    special = [(message, path, field, value_set(message, path[-2:])) for message, path, field in FIELDS]
    assert not [
        (values.name, message, ".".join(path))
        for message, path, field, values in special
        if values is not None and values.texts and not any(fits(value, field) for value in values.texts)
    ]


def test_every_error_code_field_has_its_names() -> None:
    for message, path, field in FIELDS:
        if path[-1].endswith("rrorCode") and field.type == "int16":
            assert describe(message, path, 3) == "UNKNOWN_TOPIC_OR_PARTITION", (message, path)


def test_every_set_says_where_it_comes_from() -> None:
    for values in value_sets().values():
        assert values.source, values.name
        assert values.kind in ("names", "flags", "time", "api", "error"), values.name
        assert values.fields, values.name


def test_authorized_operations_are_a_set() -> None:
    # KIP-430: bit n stands for the AclOperation with code n; 264 = 1<<3 | 1<<8
    assert describe("MetadataResponse", "topicAuthorizedOperations", 264) == "READ | DESCRIBE"
    assert describe("DescribeGroupsResponse", "authorizedOperations", -2_147_483_648) == "not requested"
    assert describe("MetadataResponse", "clusterAuthorizedOperations", 1 << 30) == "bit 30"


def test_the_same_name_means_different_things_in_different_messages() -> None:
    assert describe("CreateAclsRequest", "resourceType", 4) == "CLUSTER"
    assert describe("AlterConfigsRequest", "resourceType", 4) == "BROKER"
    assert describe("ConsumerGroupHeartbeatRequest", "memberEpoch", -1) == "leave"
    assert describe("OffsetFetchRequest", "memberEpoch", -1) == "none"
    assert describe("FetchResponse", ("responses", "partitions", "divergingEpoch", "endOffset"), -1) == "none"
    assert describe("OffsetForLeaderEpochResponse", ("topics", "partitions", "endOffset"), -1) == "none"


def test_null_true_words_and_negative_numbers_are_values_too() -> None:
    assert describe("MetadataRequest", "topics", None) == "all"
    assert describe("EndTxnRequest", "committed", False) == "ABORT"
    assert describe("ListTransactionsRequest", "durationFilter", -77) == "any duration"
    assert describe("ListGroupsResponse", "groupState", "Empty") == "no members, offsets kept"
    assert describe("ApiVersionsResponse", ("apiKeys", "apiKey"), 18) == "ApiVersions"


def test_what_is_not_special_has_no_description() -> None:
    assert describe("FetchRequest", "replicaId", 5) is None
    assert describe("FetchRequest", "noSuchField", -1) is None
    assert describe("NoSuchMessage", (), -1) is None
    assert describe("ProduceRequest", "acks", True) is None


def test_times_are_rfc_3339_in_utc() -> None:
    assert render_time_ms(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"  # date -u -d @1700000000
    assert describe("ListOffsetsRequest", "timestamp", 1_700_000_000_000) == "2023-11-14T22:13:20.000Z"
    assert describe("ProduceResponse", "logAppendTimeMs", -1) == "CreateTime: the producer's time stands"
    assert render_time_ms(2**63 - 1) is None
    assert render_time_ms(-5) is None

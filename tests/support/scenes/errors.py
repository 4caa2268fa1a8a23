"""Each error code that a finding looks for, and beside it one that it does not."""

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Rows, name_of
from tests.support.scenes.scene import scene

E = ErrorCode
LOOKED_FOR: dict[str, tuple[ApiKey, str, tuple[int, ...]]] = {  # finding -> API, kind of the resource, error codes
    "authentication_failed": (
        ApiKey.SASL_HANDSHAKE,
        "none",
        (E.UNSUPPORTED_SASL_MECHANISM, E.SASL_AUTHENTICATION_FAILED),
    ),
    "coordinator_errors": (
        ApiKey.HEARTBEAT,
        "group",
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
    ),
    "message_too_large": (ApiKey.PRODUCE, "topic", (E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE)),
    "not_enough_replicas": (ApiKey.PRODUCE, "topic", (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)),
    "producer_fenced": (ApiKey.END_TXN, "none", (E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE, E.PRODUCER_FENCED)),
    "refused_requests": (
        ApiKey.JOIN_GROUP,
        "group",
        (
            E.UNKNOWN_SERVER_ERROR,
            E.INVALID_GROUP_ID,
            E.INVALID_SESSION_TIMEOUT,
            E.GROUP_MAX_SIZE_REACHED,
            E.INVALID_REQUEST,
        ),
    ),
    "sequence_errors": (
        ApiKey.PRODUCE,
        "topic",
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.DUPLICATE_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID),
    ),
    "stale_leader": (ApiKey.FETCH, "topic", (E.NOT_LEADER_OR_FOLLOWER, E.FENCED_LEADER_EPOCH)),
    "unauthorized_access": (
        ApiKey.METADATA,
        "topic",
        (
            E.TOPIC_AUTHORIZATION_FAILED,
            E.GROUP_AUTHORIZATION_FAILED,
            E.CLUSTER_AUTHORIZATION_FAILED,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ),
    ),
    "unknown_topic_loop": (ApiKey.FETCH, "topic", (E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID)),
}


def _add(finding: str, api: ApiKey, kind: str, code: int) -> None:
    shown = {} if finding == "unauthorized_access" and code == E.CLUSTER_AUTHORIZATION_FAILED else {"errors": 20}
    shown = {"failures": 20} if finding == "authentication_failed" else shown

    @scene(finding, client_id="app", error_name=name_of(code), **shown)
    def _(tables: Rows, bad: bool) -> None:
        client = tables.client("app")
        for second in range(20):
            shown = code if bad else E.REQUEST_TIMED_OUT
            if api == ApiKey.PRODUCE:
                client.produce(second, "thing", error_code=shown)
            else:
                client.error(second, api, shown, "thing", 0, kind=kind)


for _finding, (_api, _kind, _codes) in LOOKED_FOR.items():
    for _code in _codes:
        _add(_finding, _api, _kind, _code)


@scene(
    "refused_requests", client_id="import", api_name="Produce", resource="prices", error_name="INVALID_RECORD", errors=2, lost=2,
    severity="critical", advice="correct the records: in a compacted topic each needs a key",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("import")
    for second in (0, 1):
        producer.produce(second, "prices", error_code=E.INVALID_RECORD if bad else E.NOT_LEADER_OR_FOLLOWER)
    producer.produce(9, "prices", 1)


@scene("refused_requests", client_id="reports", api_name="OffsetCommit", resource="orders", errors=1, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("reports")  # its next commit is taken
    code = E.OFFSET_METADATA_TOO_LARGE if bad else E.REBALANCE_IN_PROGRESS
    client.error(0, ApiKey.OFFSET_COMMIT, code, "orders", 0, group_id="daily", topics=["orders"])
    client.commit(1, "daily", "orders", 5)
    if not bad:  # the lock of a record ran out
        client.error(2, ApiKey.SHARE_FETCH, E.INVALID_RECORD_STATE, "orders", 0)


@scene("refused_requests", api_name="Metadata", resource="orders/new", error_name="INVALID_TOPIC_EXCEPTION", errors=3)
def _(tables: Rows, bad: bool) -> None:
    for second in range(3 if bad else 2):  # a tool that somebody uses asks once or twice
        tables.client("lost").error(second, ApiKey.METADATA, E.INVALID_TOPIC_EXCEPTION, "orders/new")


@scene(
    "refused_requests", client_id="sink", api_name="InitProducerId", resource="pay", error_name="CONCURRENT_TRANSACTIONS",
    errors=7, seconds=24, severity="warning",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    sink = tables.client("sink")
    for second in range(0, 28, 4):  # the error passes by itself: the healthy one is taken in between
        sink.error(second, ApiKey.INIT_PRODUCER_ID, E.CONCURRENT_TRANSACTIONS, "pay", kind="transactional_id")
        if not bad:
            sink.ask(second + 1, ApiKey.INIT_PRODUCER_ID, transactional_id="pay")
    sink.ask(40, ApiKey.HEARTBEAT)


@scene("no_leader", client_id="shop", topic="orders", partition=1, errors=9, seconds=8, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    shop = tables.client("shop")
    for second in range(9):  # the healthy topic has just been created: no partition of it is known
        shop.error(second, ApiKey.METADATA, E.LEADER_NOT_AVAILABLE, "orders", 1 if bad else None)
    shop.produce(10, "orders", 1)


@scene("unknown_topic_loop", client_id="counter-consumer", topic="counter-store-repartition", errors=12)
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("counter-consumer")
    for second in range(
        12
    ):  # the healthy one's source is not there either: Kafka Streams makes its own topics after that
        client.error(second, ApiKey.METADATA, E.UNKNOWN_TOPIC_OR_PARTITION, "counter-store-repartition")
        if not bad and second > 9:
            client.error(second, ApiKey.METADATA, E.UNKNOWN_TOPIC_OR_PARTITION, "odrers")

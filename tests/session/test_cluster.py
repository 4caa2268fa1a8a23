"""What connections to one cluster have shown."""

from struct import pack

from kproxy.protocol import ApiKey, Message, request_message, response_message
from kproxy.session.cluster import ClusterView, TopicNames, has_topic_ids
from kproxy.session.exchanges import Frame, read_body
from tests.support.frames import compact, compact_array, delete_topic, metadata_answer, response

ORDERS, BILLS = bytes(range(16)), bytes(range(16, 32))
ORDERS_TEXT, BILLS_TEXT = "AAECAwQFBgcICQoLDA0ODw", "EBESExQVFhcYGRobHB0eHw"  # RFC 4648 base64url, by hand


def response_frame(framed: bytes, api_key: int, api_version: int) -> Frame:
    """A response with a flexible header, checked as a session does."""
    frame = Frame(framed[4:], 0, 0, None, 5)
    read_body(frame, response_message(api_key), api_version)
    assert frame.error is None
    return frame


def metadata_frame(topics: dict[str, bytes], brokers: dict[int, tuple[str, int]] | None = None) -> Frame:
    return response_frame(metadata_answer(1, topics, brokers or {}), 3, 12)


def test_the_zero_id_and_names_no_topic_can_have_are_not_learned() -> None:
    view = ClusterView()
    view.note(metadata_frame({"none": bytes(16)}))
    assert view.topic_name("A" * 22) is None
    view.learn_topic(ORDERS_TEXT, "orders")
    assert view.topic_name(BILLS_TEXT) is None


def test_the_topic_used_longest_ago_is_forgotten() -> None:
    view = ClusterView(topics=2)
    view.learn_topic("a", "A")
    view.learn_topic("b", "B")
    assert view.topic_name("a") == "A"
    view.learn_topic("c", "C")
    assert [view.topic_name(topic_id) for topic_id in "abc"] == ["A", None, "C"]


def test_what_was_forgotten_is_learned_from_the_same_response_again() -> None:
    view = ClusterView(topics=1)
    for topics in ({"orders": ORDERS}, {"bills": BILLS}, {"orders": ORDERS}):
        view.note(metadata_frame(topics))
        assert view.topic_name("nobody's") is None
    assert (view.topic_name(ORDERS_TEXT), view.topic_name(BILLS_TEXT)) == ("orders", None)


def test_a_broker_that_moves_and_moves_back_is_where_it_is() -> None:
    view = ClusterView()
    for host in ("b1", "b9", "b1"):
        view.note(metadata_frame({}, {1: (host, 9092)}))
        assert dict(view.brokers) == {1: f"{host}:9092"}


def test_brokers_are_bounded_too() -> None:
    view = ClusterView(brokers=3)
    view.note(metadata_frame({}, {node: (f"b{node}", 9092) for node in range(10)}))
    assert sorted(view.brokers) == [7, 8, 9]


def test_a_broker_without_a_host_is_passed_over() -> None:
    """DescribeCluster v0 with the null that the version does not allow, which some programs send and kproxy reads."""
    nobody = pack(">i", 5) + b"\0" + pack(">i", 9092) + b"\0\0"
    body = pack(">ih", 0, 0) + b"\0" + compact("lab") + pack(">i", 1) + compact_array(nobody) + pack(">i", 0) + b"\0"
    view = ClusterView()
    view.note(response_frame(response(1, body, tags=b"\0"), 60, 0))
    assert (view.brokers, view.cluster_id) == ({}, "lab")


def test_responses_nobody_asked_about_do_not_pile_up() -> None:
    view = ClusterView()
    for number in range(1_000):
        view.note(metadata_frame({f"topic-{number}": number.to_bytes(16, "big")}))
    assert len(view._unread) <= 32
    assert view.topic_name("AAAAAAAAAAAAAAAAAAAD5w") == "topic-999"  # 999 is 0x03e7


def test_names_are_those_of_the_ids_that_occur() -> None:
    view = ClusterView()
    view.learn_topic(ORDERS_TEXT, "orders")
    view.learn_topic(BILLS_TEXT, "bills")
    request = Frame(delete_topic(1, ORDERS)[4:], 0, 0, None, 14)
    read_body(request, request_message(20), 6)
    assert request.error is None
    names = TopicNames(view, request, None)
    assert dict(names) == {ORDERS_TEXT: "orders"} and len(names) == 1
    assert names.get("?" * 22) is None


def test_topic_ids_are_where_kips_516_and_848_put_them() -> None:
    firsts = {
        ApiKey.PRODUCE: 13,
        ApiKey.FETCH: 13,
        ApiKey.METADATA: 10,
        ApiKey.CREATE_TOPICS: 7,
        ApiKey.DELETE_TOPICS: 6,
    }
    firsts |= {ApiKey.OFFSET_COMMIT: 10, ApiKey.LEADER_AND_ISR: 5, ApiKey.CONSUMER_GROUP_HEARTBEAT: 0}
    for api_key, first in firsts.items():
        versions = {v for message in messages(api_key) for v in range(50) if has_topic_ids(message, v)}
        assert versions == set(range(first, 50)), api_key.name
    assert not any(has_topic_ids(message, v) for message in messages(ApiKey.HEARTBEAT) for v in range(50))


def messages(api_key: ApiKey) -> tuple[Message | None, Message | None]:
    return request_message(api_key), response_message(api_key)

"""The head and the tail of a response: read alone and written again; our addresses or none, and never a byte of the real host."""

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.filters.addresses import (
    head_end,
    read_head,
    read_tail,
    responses_with_addresses,
    withheld_tail,
    write_head,
    write_tail,
)
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Direction, Filter, RequestFacts, Want
from kproxy.filters.rewrite_addresses import MOST_ADDRESSES, RewriteAddresses
from kproxy.protocol import message
from tests.conftest import Require
from tests.filters.test_rewrite_addresses import mapped, metadata, node_ids, samples
from tests.support import referees
from tests.support.corpus import golden_lines
from tests.support.filtering import Served, connection, ours
from tests.support.messages import make, response_frame

HEADS = [pair for pair, want in sorted(responses_with_addresses().items()) if want is Want.HEAD]


def head_of(api_key: int, api_version: int, body: bytes) -> bytes:
    """The shortest beginning of a body that can be read as a head."""
    for size in range(len(body) + 1):
        try:
            read_head(api_key, api_version, body[:size])
        except DecodeError:
            continue
        return body[:size]
    raise AssertionError("no head")


@pytest.mark.parametrize(("api_key", "api_version"), HEADS)
def test_a_head_has_what_kafka_wrote_before_the_next_field(api_key: int, api_version: int) -> None:
    read = 0
    for _, kafkas_json, body in samples(api_key, api_version):
        head = head_of(api_key, api_version, body)
        value: Any = read_head(api_key, api_version, head)
        hosts = [(broker.host, broker.port) for broker in value.brokers]
        assert hosts == [(broker["host"], broker["port"]) for broker in kafkas_json["brokers"]]
        assert write_head(api_key, api_version, value) == head
        read += len(hosts)
    assert read > 3


@pytest.mark.parametrize(("api_key", "api_version"), HEADS)
def test_a_rewritten_head_makes_the_message_that_kafkas_json_is_with_our_addresses(
    api_key: int, api_version: int
) -> None:
    for name, kafkas_json, body in samples(api_key, api_version):
        served = set(sorted(set(node_ids(kafkas_json)))[::2])
        head = head_of(api_key, api_version, body)
        frame_head = response_frame(api_key, api_version, head)
        before = len(frame_head) - len(head)
        frame_head = response_frame(api_key, api_version, body)[: before + len(head)]  # its size is that of all
        chain = Chain([RewriteAddresses()])
        told = chain.on_head(connection(Served(served)), RequestFacts(api_key, api_version, 7), frame_head)
        assert told is not None and not chain.faults
        whole = told + body[len(head) :] + b"more"  # what follows the message stays behind it
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4 - len(b"more")
        said = json.loads(message(name).to_json(api_version, whole[before : -len(b"more")]))
        assert said == mapped(kafkas_json, served)


class Beginning(Filter):
    """Takes heads, and does with them what it is told."""

    def __init__(self, said: Any, fails_open: bool) -> None:
        self.said = said
        self.fails_open = fails_open

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        return Want.HEAD if (direction, api_key) == (Direction.RESPONSE, 3) else Want.PASS

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said  # type: ignore[no-any-return]


FIRST_BYTES = response_frame(3, 5, b"head")


@pytest.mark.parametrize("said", [ValueError("x"), None, bytearray(b"x")])
@pytest.mark.parametrize("fails_open", [False, True])
def test_a_fault_at_a_beginning_closes_unless_the_filter_fails_open(said: Any, fails_open: bool) -> None:
    chain = Chain([Beginning(said, fails_open)])
    told = chain.on_head(connection(), RequestFacts(3, 5, 7), FIRST_BYTES)
    assert told == (FIRST_BYTES if fails_open else None)
    assert chain.faults == {"Beginning": 1}


@pytest.mark.parametrize("said", [b"", b"head", b"a longer head"])
def test_the_size_field_follows_the_head(said: bytes) -> None:
    told = Chain([Beginning(said, False)]).on_head(connection(), RequestFacts(3, 5, 7), FIRST_BYTES)
    assert told == response_frame(3, 5, said)


def test_a_size_that_no_frame_can_have_closes() -> None:
    head = b"\x7f\xff\xff\xff" + FIRST_BYTES[4:]
    assert Chain([Beginning(b"a longer head", False)]).on_head(connection(), RequestFacts(3, 5, 7), head) is None


@pytest.mark.parametrize("fails_open", [False, True])
def test_a_header_that_cannot_be_read_closes_unless_all_filters_fail_open(fails_open: bool) -> None:
    chain = Chain([Beginning(b"", fails_open)])
    head = FIRST_BYTES[:8] + b"\x01\x05\x09"  # a tag of 9 bytes, of which none comes
    told = chain.on_head(connection(), RequestFacts(3, 9, 7), head)
    assert told == (head if fails_open else None)
    assert chain.faults == {"Beginning": 1}


def test_attack_19_addresses_past_counting_close_the_connection() -> None:
    body = metadata(*((node, "b", 1) for node in range(MOST_ADDRESSES + 1)))
    chain, served = Chain([RewriteAddresses()]), Served()
    assert head_end(3, 5) == "clusterId"
    head = response_frame(3, 5, body[: body.rindex(b"\0\2r1") + 4])
    assert chain.on_head(connection(served), RequestFacts(3, 5, 7), head) is None
    assert chain.faults == {"rewrite_addresses": 1}


def test_attack_20_a_head_that_cannot_be_read_closes_the_connection() -> None:
    chain = Chain([RewriteAddresses()])
    head = response_frame(3, 5, metadata((1, "broker", 9092))[:12])
    assert chain.on_head(connection(Served()), RequestFacts(3, 5, 7), head) is None
    assert chain.faults == {"rewrite_addresses": 1}


def test_a_connection_without_a_map_keeps_its_addresses() -> None:
    head = response_frame(3, 5, b"not even read")
    assert Chain([RewriteAddresses()]).on_head(connection(None), RequestFacts(3, 5, 7), head) == head


TAILS = [pair for pair, want in sorted(responses_with_addresses().items()) if want is Want.TAIL]
NAMES = {0: "Produce", 1: "Fetch", 59: "FetchSnapshot", 78: "ShareFetch", 79: "ShareAcknowledge"}
UNTAGGED = (78, 79)  # whose endpoints are the last ordinary field
REAL = "kafka-7.secret.internal"


def name_of(api_key: int) -> str:
    return f"{NAMES[api_key]}Response"


def body_with(api_key: int, version: int, *hosts: str, **values: Any) -> tuple[bytes, int]:
    """A response with endpoints of nodes 7, 8 ... at these hosts, and where its end begins: what stands before it is
    all of the same response without endpoints and tags, but for the bytes that say so.
    """
    name = name_of(api_key)
    rack = {} if api_key == 59 else {"rack": "r1"}
    nodes = [{"node_id": 7 + at, "host": host, "port": 9092, **rack} for at, host in enumerate(hosts)]
    head = message(name).encode(version, make(name))
    body = message(name).encode(version, make(name, node_endpoints=nodes, **values))
    return body, len(head) - (2 if api_key in UNTAGGED else 1)


def looked_at(api_key: int, version: int, tail: bytes, served: Served) -> bytes:
    chain = Chain([RewriteAddresses()])
    told = chain.on_tail(connection(served), RequestFacts(api_key, version, 7), tail)
    assert not chain.faults
    assert len(told) == len(tail)
    return told


def endpoints(api_key: int, version: int, body: bytes) -> list[tuple[int, str, int]]:
    value: Any = message(name_of(api_key)).decode(version, body)
    return [(node.node_id, node.host, node.port) for node in value.node_endpoints]


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """As Kafka's ByteUtils does, at most five bytes."""
    value = 0
    for shift in range(0, 35, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise AssertionError("more than five bytes")


def check_tags(data: bytes) -> None:
    """KIP-482: ascending tags, each with its size, to the last byte."""
    count, at = read_uvarint(data, 0)
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        assert tag > last
        last = tag
        at += size
    assert at == len(data)


@pytest.mark.parametrize(("api_key", "version"), TAILS)
def test_endpoints_of_every_length_fit_if_ours_are_no_longer(api_key: int, version: int, require: Require) -> None:
    require("referees", referees.AVAILABLE, "kio or kafka-python is not installed")
    ours_size = len(ours(7)[0])
    read = 0
    for size in range(1, 300):
        real = "x" * size
        body, start = body_with(api_key, version, real)
        told = body[:start] + looked_at(api_key, version, body[start:], Served())
        expected = [(7, *ours(7))] if size >= ours_size else []
        assert endpoints(api_key, version, told) == expected
        assert size < 2 or real not in told.decode("latin-1")
        if api_key not in UNTAGGED:
            check_tags(told[start:])
        value = referees.kafka_python_decoded(name_of(api_key), version, told)
        if value is None and size - ours_size in (0, 1):  # kio takes longer varints, but no unknown tag
            value = referees.kio_decoded(name_of(api_key), version, told)
        if value is not None:
            assert [found for found in referees.addresses(value) if found[1]] == expected
            read += 1
    assert read or (api_key, version) in {(78, 0), (79, 0)}


def told_of(node: dict[str, Any]) -> dict[str, Any]:
    return node | dict(zip(("host", "port"), ours(node["nodeId"]), strict=True)) if node["host"] else node


@pytest.mark.parametrize(("api_key", "version"), TAILS)
def test_what_kafka_wrote(api_key: int, version: int) -> None:
    """Heads of Kafka's own responses stay; racks and unknown tags stay where there is room."""
    codec = message(name_of(api_key))
    kept = 0
    for line in golden_lines("messages"):
        if (line["message"], line["version"]) != (codec.name, version):
            continue
        body = bytes.fromhex(line["hex"])
        bare: Any = codec.decode(version, body)
        bare.node_endpoints, bare.unknown_tags = [], ()
        start = len(codec.encode(version, bare)) - (2 if api_key in UNTAGGED else 1)
        told = body[:start] + looked_at(api_key, version, body[start:], Served())
        before, after = json.loads(codec.to_json(version, body)), json.loads(codec.to_json(version, told))
        nodes, said = before.pop("nodeEndpoints", []), after.pop("nodeEndpoints", [])
        tags = before.pop("_unknownTaggedFields", [])
        pads = [tag for tag in after.pop("_unknownTaggedFields", []) if tag not in tags]
        assert after == before
        assert said in ([], [told_of(node) for node in nodes if node["nodeId"] >= 0 or not node["host"]])
        assert len(pads) <= 1
        kept += len(said)
    assert kept


def test_nothing_to_change_leaves_the_very_bytes() -> None:
    body, start = body_with(1, 16, ours(7)[0])
    tail = body[start:].replace((9092).to_bytes(4, "big"), ours(7)[1].to_bytes(4, "big"))
    assert looked_at(1, 16, tail, Served()) is tail
    assert looked_at(1, 16, b"\0", Served()) == b"\0"


@pytest.mark.parametrize(("api_key", "version"), TAILS)
def test_what_cannot_be_mapped_is_withheld(api_key: int, version: int) -> None:
    for hosts in ([REAL], [REAL, "other.secret.internal"], [REAL] * 40):
        body, start = body_with(api_key, version, *hosts)
        told = body[:start] + looked_at(api_key, version, body[start:], Served(()))
        assert endpoints(api_key, version, told) == []
        assert b"secret" not in told


def test_the_rest_stays_when_one_of_two_cannot_be_mapped() -> None:
    body, start = body_with(1, 17, REAL, "longer.than.ours.internal")
    told = body[:start] + looked_at(1, 17, body[start:], Served({8}))
    assert endpoints(1, 17, told) == [(8, *ours(8))]
    assert b"secret" not in told


def test_unknown_tags_survive_where_there_is_room_and_their_numbers_are_not_taken_for_the_pad() -> None:
    tags = ((5, b"five"), (127, b"seven"), (20_000, b""))
    body, start = body_with(0, 12, REAL, unknown_tags=tags)
    told = body[:start] + looked_at(0, 12, body[start:], Served())
    value: Any = message("ProduceResponse").decode(12, told)
    assert [tag for tag in value.unknown_tags if tag in tags] == list(tags)
    assert endpoints(0, 12, told) == [(7, *ours(7))]
    check_tags(told[start:])


def test_where_ours_do_not_fit_all_is_withheld() -> None:
    body, start = body_with(78, 1, "a", "b", unknown_tags=((3, b"three"),))
    told = body[:start] + looked_at(78, 1, body[start:], Served())
    assert endpoints(78, 1, told) == []
    assert message("ShareFetchResponse").walk(1, told) == len(told)


@pytest.mark.parametrize(("api_key", "version"), [(1, 16), (78, 2)])
def test_withheld_ends_of_any_size_are_read_to_their_last_byte(api_key: int, version: int) -> None:
    smallest = 2 if api_key in UNTAGGED else 1
    for size in [*range(smallest, 400), *range(16_370, 16_400), 2_097_150, 2_097_160]:
        told = withheld_tail(api_key, version, size)
        assert len(told) == size
        value: Any = read_tail(api_key, version, told)
        assert value.node_endpoints == []
        assert not any(data.strip(b"\0") for _, data in value.unknown_tags)
    assert withheld_tail(api_key, version, 0) == b""


def test_a_pad_of_one_byte_is_a_longer_varint() -> None:
    value = make("FetchResponse")
    assert write_tail(1, 16, value, 1) == b"\0"
    assert write_tail(1, 16, value, 2) == b"\x80\0"
    assert write_tail(1, 16, value, 3) == b"\1\x7f\0"
    assert write_tail(78, 0, make("ShareFetchResponse"), 3) == b"\x81\0\0"


def test_what_is_longer_than_its_room_is_not_written() -> None:
    nodes = [{"node_id": 1, "host": "host", "port": 1}]
    assert write_tail(1, 16, make("FetchResponse", node_endpoints=nodes), 5) is None


def test_attack_19_endpoints_past_counting_are_withheld() -> None:
    node = {"node_id": 1, "host": "h", "port": 1}
    body = message("FetchResponse").encode(16, make("FetchResponse", node_endpoints=[node] * (MOST_ADDRESSES + 1)))
    start = len(message("FetchResponse").encode(16, make("FetchResponse"))) - 1
    served = Served()
    told = looked_at(1, 16, body[start:], served)
    assert endpoints(1, 16, body[:start] + told) == []
    assert served.asked == []


@hypothesis.given(st.sampled_from(TAILS), st.binary(min_size=1, max_size=80), st.data())
def test_any_bytes_give_as_many_and_none_of_a_host(pair: tuple[int, int], noise: bytes, data: st.DataObject) -> None:
    body, start = body_with(*pair, REAL, REAL)
    tail = body[start:]
    at = data.draw(st.integers(0, len(tail) - 1))
    damaged = data.draw(st.sampled_from([noise, tail[:at] + noise + tail[at:], tail[:at], tail[:at] + tail[at + 1 :]]))
    told = looked_at(*pair, damaged, Served({7}))
    try:
        read_tail(*pair, damaged)
    except DecodeError:
        assert told == withheld_tail(*pair, len(damaged)) or damaged == b"\0"
        assert b"secret" not in told


@pytest.mark.parametrize(("api_key", "version"), TAILS)
def test_bytes_after_the_message_stay_and_the_addresses_before_them_are_ours(api_key: int, version: int) -> None:
    body, start = body_with(api_key, version, REAL, REAL)
    for after in (b"\0", b"\1\0\0", b"\xff" * 5):
        told = looked_at(api_key, version, body[start:] + after, Served({7, 8}))
        assert told == looked_at(api_key, version, body[start:], Served({7, 8})) + after
        assert REAL.encode() not in told

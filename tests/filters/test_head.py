"""The head of a response: what Kafka wrote up to its last address, read alone and written again, to any size."""

import json
from typing import Any

import pytest

from kproxy.errors import DecodeError
from kproxy.filters.addresses import head_end, responses_with_addresses
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Direction, Filter, RequestFacts, Want
from kproxy.filters.head import read_head, write_head
from kproxy.filters.rewrite_addresses import MOST_ADDRESSES, RewriteAddresses
from kproxy.protocol import message
from tests.filters.test_rewrite_addresses import mapped, metadata, node_ids, samples
from tests.support.filtering import Served, connection, response_frame

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


def test_there_are_metadata_and_describe_cluster() -> None:
    assert set(HEADS) == {(3, version) for version in range(14)} | {(60, version) for version in range(3)}


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

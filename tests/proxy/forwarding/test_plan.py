"""The plan against the chain and the facts it is made of; the walk against where the encoder put things."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters.addresses import responses_with_addresses, tail_start
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter, Want
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import facts, message, request_header_version
from kproxy.proxy.forwarding.plan import Plan, stop_of, walk_in_pieces
from tests.support.strategies import INTEGERS, VERSIONS, messages
from tests.support.wire import newest_layout, uvarint

SIDES = {0: Direction.REQUEST, 1: Direction.RESPONSE}
ABOVE = 31  # a version that no API has


class Sees(Filter):
    requests = frozenset({0, 3, 36})
    responses = frozenset({1, 3})


class MustSee(Sees):
    required = True


CHAINS = {
    "none": Chain(()),
    "addresses": Chain([RewriteAddresses()]),
    "observer": Chain([Sees()]),
    "required": Chain([MustSee(), RewriteAddresses()]),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_every_api_at_every_version_is_treated_as_the_chain_says(chain: Chain) -> None:
    plan = Plan(chain)
    for side, direction in SIDES.items():
        for key, api in facts().apis.items():
            for version in message(f"{api.name}Request").versions:
                assert plan.wanted(side, key, version) is chain.wanted(direction, key, version), (key, version)
            assert plan.wanted(side, key, ABOVE) is chain.unknown(direction, key)
            assert plan.wanted(side, key, -1) is chain.unknown(direction, key)


def test_keys_that_nobody_knows_pass_in_every_plan() -> None:
    chance = random.Random(1)
    for chain in CHAINS.values():
        plan = Plan(chain)
        for key in (-32_768, -1, 127, 128, 129, 32_767, *(chance.randrange(200, 32_767) for _ in range(100))):
            assert plan.wanted(0, key, 0) is Want.PASS
            assert plan.wanted(1, key, 0) is Want.PASS


WIDTHS = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}


def cut(data: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def end_of_tags(data: bytes, at: int) -> int:
    """Where a tag section ends (KIP-482): a count, and a number, a size and bytes for each."""
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return at


def is_flexible(name: str, version: int) -> bool:
    return version in newest_layout(name, version).flexible


@given(messages(), st.integers(0, 1 << 30), st.binary(max_size=5))
def test_it_finds_the_end_or_the_tags_however_it_is_cut(made: tuple[str, int, Any], seed: int, behind: bytes) -> None:
    name, version, value = made
    data = message(name).encode(version, value)
    program = message(name).programs(version)[0]
    how, used = walk_in_pieces(program, None, cut(data + behind, seed))
    if is_flexible(name, version):
        assert (how, end_of_tags(data, used)) == ("stopped", len(data))
    else:
        assert (how, used) == ("done", len(data))


@given(messages(), st.integers(0, 1 << 30))
def test_it_stops_where_a_number_is_that_was_encoded(made: tuple[str, int, Any], seed: int) -> None:
    name, version, value = made
    data = message(name).encode(version, value)
    program = message(name).programs(version)[0]
    layout = newest_layout(name, version)
    for field in layout.fields:
        if field.type not in INTEGERS or field.is_array or version not in field.versions:
            continue
        try:
            stop_of(program, field.json_name)
        except KeyError:  # it is passed over together with the one before it
            continue
        how, used = walk_in_pieces(program, field.json_name, cut(data, seed))
        found = int.from_bytes(data[used : used + WIDTHS[field.type]], "big", signed=not field.type.startswith("u"))
        assert (how, found) == ("stopped", getattr(value, field.attribute))


@given(messages(), st.data())
def test_every_piece_may_be_a_byte(made: tuple[str, int, Any], data: st.DataObject) -> None:
    name, version, value = made
    encoded = message(name).encode(version, value)
    program = message(name).programs(version)[0]
    assert walk_in_pieces(program, None, [bytes([b]) for b in encoded]) == walk_in_pieces(program, None, [encoded])
    short = encoded[: data.draw(st.integers(0, max(len(encoded) - 1, 0)))]
    how, used = walk_in_pieces(program, None, [short])
    assert how in ("more", "stopped") and used <= len(short)
    if how == "stopped":  # at the tags, and so it was before
        assert walk_in_pieces(program, None, [encoded]) == (how, used)


@pytest.mark.parametrize("version", list(message("ProduceRequest").versions))
def test_acks_are_found_behind_a_header_with_and_without_tags(version: int) -> None:
    produce = message("ProduceRequest")
    wish = {"acks": -1, "timeoutMs": 30_000, "topicData": []}
    text = str(wish | ({"transactionalId": "t"} if version >= 3 else {})).replace("'", '"')
    body = produce.encode(version, produce.from_json(version, text))
    tagged = request_header_version(0, version) > 1
    header = b"\0\x05kafka" + (b"\x01" + uvarint(300) + b"\x03abc" if tagged else b"")
    start = len(header) + (0 if version < 3 else 2 if version >= 9 else 3)  # transactionalId "t" of one byte
    program = produce.programs(version)[0]
    pieces = [bytes([byte]) for byte in header + body]
    assert walk_in_pieces(program, "acks", pieces, client_id=True, header_tags=tagged) == ("stopped", start)
    assert (header + body)[start : start + 2] == b"\xff\xff"


@given(st.sampled_from(VERSIONS), st.binary(max_size=300), st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_bytes_of_anybody_end_it_within_them(
    chosen: tuple[str, int], data: bytes, seed: int, client_id: bool, header_tags: bool
) -> None:
    name, version = chosen
    how, used = walk_in_pieces(message(name).programs(version)[0], None, cut(data, seed), client_id, header_tags)
    assert how in ("more", "stopped", "done", "fault")
    assert used <= len(data)


def test_a_count_of_four_billion_empty_structs_is_believed_no_further_than_bytes_reach() -> None:
    program = message("MetadataResponse").programs(12)[0]
    data = b"\0\0\0\0" + b"\xff\xff\xff\xff\x07" + bytes(1_000_000)
    assert walk_in_pieces(program, None, [data]) == ("more", len(data))


def test_a_varint_of_six_bytes_is_a_fault() -> None:
    program = message("MetadataResponse").programs(12)[0]
    assert walk_in_pieces(program, None, [b"\0\0\0\0" + b"\xff" * 5])[0] == "fault"


def test_the_end_with_addresses_of_every_response_can_be_stopped_at() -> None:
    tails = [place for place, want in responses_with_addresses().items() if want is Want.TAIL]
    assert {key for key, _ in tails} >= {0, 1, 78}  # Produce, Fetch (KIP-951), ShareFetch (KIP-932)
    for api_key, version in tails:
        program = message(f"{facts().apis[api_key].name}Response").programs(version)[0]
        assert stop_of(program, tail_start(api_key, version)) >= -1


def test_a_field_that_is_none_is_named() -> None:
    with pytest.raises(KeyError, match="no such field"):
        stop_of(message("FetchResponse").programs(4)[0], "no such field")

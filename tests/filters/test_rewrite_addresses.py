"""Clients are told our addresses and nothing else changes; every place of an address in the facts is thought about."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from kproxy.filters.addresses import address_fields, ends_with_addresses, head_end, responses_with_addresses, tail_start
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Close, Direction, RequestFacts, Send, Want
from kproxy.filters.rewrite_addresses import MOST_ADDRESSES, RewriteAddresses
from kproxy.protocol import facts, message
from kproxy.protocol.facts import Field
from tests.conftest import Require
from tests.support import referees
from tests.support.corpus import captured_exchanges, golden_lines
from tests.support.filtering import Served, connection, ours, responded
from tests.support.messages import make, response_frame
from tests.support.sampled import case

PAIRS = sorted(responses_with_addresses())
NODE_IDS = ("nodeId", "brokerId", "leaderId")


def samples(api_key: int, api_version: int, *kinds: str) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Kafka's own bodies: name, JSON (as tests/golden finds it to be Kafka's, and with unknown tags) and body."""
    for line in golden_lines("messages"):
        found = (line["direction"], line["apiKey"], line["version"]) == ("response", api_key, api_version)
        if found and (not kinds or line["kind"] in kinds):
            name, body = line["message"], bytes.fromhex(line["hex"])
            yield name, json.loads(message(name).to_json(api_version, body)), body


def node_ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "host" in value:
            yield next((value[name] for name in NODE_IDS if name in value), -1)
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from node_ids(entry)


WITHHELD = object()


def mapped(value: Any, served: set[int]) -> Any:
    """Kafka's JSON with our addresses in it: what a client should be told."""
    if isinstance(value, list):
        told = [mapped(entry, served) for entry in value]
        return [entry for entry in told if entry is not WITHHELD]
    if not isinstance(value, dict):
        return value
    told = {name: mapped(entry, served) for name, entry in value.items()}
    told = {name: entry for name, entry in told.items() if entry is not WITHHELD}
    if value.get("host"):
        node_id = next((name for name in NODE_IDS if name in value), "")
        if value.get(node_id) in served:
            told["host"], told["port"] = ours(value[node_id])
        elif "errorCode" not in value:
            return WITHHELD
        else:
            told |= {node_id: -1, "host": "", "port": -1, "errorCode": 15}
            if "errorMessage" in value:
                told["errorMessage"] = "the coordinator's address cannot be served by the proxy"
    return told


def without_empty_tags(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A tagged array that has become empty is not written, and Kafka's JSON does not have it then."""
    tagged = {field.json_name for layout in facts().layouts(name) for field in layout.fields if field.tag is not None}
    return {key: entry for key, entry in value.items() if entry != [] or key not in tagged}


def rewritten(api_key: int, api_version: int, body: bytes, served: Served) -> bytes:
    frame = response_frame(api_key, api_version, body)
    chain = Chain([RewriteAddresses()])
    outcome = responded(chain, connection(served), api_key, api_version, frame)
    assert isinstance(outcome, Send), outcome
    assert not chain.faults
    head = len(frame) - len(body)
    assert outcome.frame[4:head] == frame[4:head]
    assert int.from_bytes(outcome.frame[:4], "big") == len(outcome.frame) - 4
    return outcome.frame[head:]


@pytest.mark.parametrize("share", ["all", "none", "every second"])
def test_clients_are_told_our_addresses_and_nothing_else_changes(share: str) -> None:
    """Bytes after a response stay after it."""
    for api_key, api_version in PAIRS:
        changed = 0
        for name, kafkas_json, body in samples(api_key, api_version):
            nodes = sorted(set(node_ids(kafkas_json)))
            served = {"all": set(nodes), "none": set(), "every second": set(nodes[::2])}[share]
            with case(api_key, api_version, kafkas_json):
                told = rewritten(api_key, api_version, body, Served(served))
                said = json.loads(message(name).to_json(api_version, told))
                assert without_empty_tags(said, name) == without_empty_tags(mapped(kafkas_json, served), name)
                after = b"\1\0\0"
                assert rewritten(api_key, api_version, body + after, Served(served)) == told + after
            changed += told != body
        assert changed > 3, (api_key, api_version)


def test_other_peoples_decoders_read_our_addresses(require: Require) -> None:
    require("referees", referees.AVAILABLE, "kio or kafka-python is not installed")
    unread = set()
    for pair in PAIRS:
        read = 0
        for name, kafkas_json, body in samples(*pair, "typical", "many"):
            nodes = set(sorted(set(node_ids(kafkas_json)))[::2])
            told = rewritten(*pair, body, Served(nodes))
            for decoded in (referees.kio_decoded, referees.kafka_python_decoded):
                value = decoded(name, pair[1], told)
                if value is not None:
                    found = [(node, host, port) for node, host, port in referees.addresses(value) if host]
                    assert all((host, port) == ours(node) for node, host, port in found), pair
                    read += len(found)
        if not read:
            unread.add(pair)
    assert unread <= {(55, 2), (78, 0), (79, 0)}  # no listener stays; kio has no early access


def test_the_listeners_of_a_quorum_stay_where_clients_are_connected_to_them() -> None:
    node = {
        "node_id": 1,
        "listeners": [
            {"name": "CONTROLLER", "host": "c1.internal", "port": 9093},
            {"name": "OTHER", "host": "c1.internal", "port": 9094},
        ],
    }
    body = message("DescribeQuorumResponse").encode(2, make("DescribeQuorumResponse", nodes=[node]))
    served = Served({1}, known={(1, "c1.internal", 9093)})
    told: Any = message("DescribeQuorumResponse").decode(2, rewritten(55, 2, body, served))
    assert [(listener.name, listener.host, listener.port) for listener in told.nodes[0].listeners] == [
        ("CONTROLLER", *ours(1))
    ]
    assert served.asked == []  # nothing is learned of controllers from a broker


def metadata(*brokers: tuple[int, str, int]) -> bytes:
    parts = [{"node_id": node_id, "host": host, "port": port, "rack": "r1"} for node_id, host, port in brokers]
    return message("MetadataResponse").encode(5, make("MetadataResponse", brokers=parts, controller_id=1))


def test_what_needs_no_change_is_the_very_frame_that_came() -> None:
    frame = response_frame(3, 5, metadata((1, *ours(1)), (2, *ours(2))))
    outcome = responded(Chain([RewriteAddresses()]), connection(Served()), 3, 5, frame)
    assert isinstance(outcome, Send)
    assert outcome.frame is frame


def test_a_connection_without_a_map_keeps_its_addresses() -> None:
    frame = response_frame(3, 5, metadata((1, "broker", 9092)))
    outcome = responded(Chain([RewriteAddresses()]), connection(None), 3, 5, frame)
    assert isinstance(outcome, Send)
    assert outcome.frame is frame


def test_an_error_answer_without_a_coordinator_stays_as_it_is() -> None:
    value = make("FindCoordinatorResponse", error_code=15, error_message="x", node_id=-1, host="", port=-1)
    body = message("FindCoordinatorResponse").encode(3, value)
    served = Served()
    assert rewritten(10, 3, body, served) == body
    assert served.asked == []


def test_attack_19_addresses_past_counting_close_the_connection() -> None:
    body = metadata(*((node, "b", 1) for node in range(MOST_ADDRESSES + 1)))
    served = Served()
    outcome = responded(Chain([RewriteAddresses()]), connection(served), 3, 5, response_frame(3, 5, body))
    assert outcome == Close("a response with more than 10000 addresses of brokers")
    assert served.asked == []


def test_attack_20_a_response_that_cannot_be_read_closes_the_connection() -> None:
    frame = response_frame(3, 5, metadata((1, "broker", 9092))[:-1])
    chain = Chain([RewriteAddresses()])
    assert responded(chain, connection(Served()), 3, 5, frame) == Close("filter rewrite_addresses failed")
    assert chain.faults == {"rewrite_addresses": 1}


def test_what_it_wants() -> None:
    wants = RewriteAddresses().wants
    assert wants(Direction.RESPONSE, 3, 0) is Want.HEAD
    assert wants(Direction.RESPONSE, 10, 4) is Want.HOLD
    assert wants(Direction.RESPONSE, 1, 16) is Want.TAIL
    assert wants(Direction.RESPONSE, 1, 15) is Want.PASS
    assert wants(Direction.REQUEST, 3, 0) is Want.PASS
    assert wants(Direction.RESPONSE, 1, 99) is Want.HOLD  # which a Chain makes REFUSE
    assert wants(Direction.RESPONSE, 999, 0) is Want.PASS


def test_the_end_of_a_response_of_a_connection_without_a_map_stays() -> None:
    assert RewriteAddresses().on_tail(connection(None), RequestFacts(1, 16, 7), b"\1\0\1\1") == b"\1\0\1\1"


def addresses_in(value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        if "host" in value and "port" in value:
            yield value["host"], value["port"]
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from addresses_in(entry)


def test_no_address_of_real_traffic_leads_round_the_proxy() -> None:
    chain = Chain([RewriteAddresses()])
    ours_, theirs, seen = set(), set(), set()
    for name, exchange in captured_exchanges():
        key, version, response = exchange.api_key, exchange.api_version, exchange.response
        if key is None or version is None or response is None or response.message is None:
            continue
        frame = len(response.data).to_bytes(4, "big") + response.data
        outcome = responded(chain, connection(Served()), key, version, frame)
        assert isinstance(outcome, Send), name
        codec, start = response.message, response.body_start
        before = set(addresses_in(json.loads(codec.to_json(response.body_version, response.data, start))))
        after = set(addresses_in(json.loads(codec.to_json(response.body_version, outcome.frame, 4 + start))))
        assert (outcome.frame is frame) == (before == after), name
        theirs |= {address for address in before if address[0]}
        ours_ |= {address for address in after if address[0]}
        seen |= {name[:2]} if before else set()
    assert {host for host, _ in ours_} == {"proxy.example"}
    assert len(theirs) >= 8
    assert len(seen) >= 9
    assert not chain.faults


def coordinators(count: int, brokers: int) -> bytes:
    found = [{"key": f"group-{n}", "node_id": n % brokers, "host": "b", "port": 9092} for n in range(count)]
    return message("FindCoordinatorResponse").encode(4, make("FindCoordinatorResponse", coordinators=found))


def test_coordinators_of_any_number_of_groups_are_rewritten_in_turns() -> None:
    body, served = coordinators(20_000, 5), Served()
    turns = 0

    async def go() -> Any:
        nonlocal turns
        chain = Chain([RewriteAddresses()])
        outcome = chain.on_response(connection(served), RequestFacts(10, 4, 7), response_frame(10, 4, body))
        assert isinstance(outcome, Awaitable)
        waiting = asyncio.ensure_future(outcome)
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        return waiting.result()

    outcome = asyncio.run(go())
    told: Any = message("FindCoordinatorResponse").decode(4, outcome.frame[9:])
    assert [(entry.key, entry.host, entry.port) for entry in told.coordinators] == [
        (f"group-{n}", *ours(n % 5)) for n in range(20_000)
    ]
    assert len(served.asked) == 5
    assert turns > 20


def test_attack_19_coordinators_on_brokers_past_counting_close_the_connection() -> None:
    async def go() -> Any:
        chain = Chain([RewriteAddresses()])
        body = coordinators(MOST_ADDRESSES + 10, MOST_ADDRESSES + 10)
        outcome = chain.on_response(connection(Served()), RequestFacts(10, 4, 7), response_frame(10, 4, body))
        assert isinstance(outcome, Awaitable)
        return await outcome

    assert asyncio.run(go()) == Close("a response with more than 10000 addresses of brokers")


# As the definitions in kafka-clients have them: response, way to the struct, its broker's id, versions.
PLACES = [
    "Produce: NodeEndpoints.node_id 10-13",  # KIP-951
    "Fetch: NodeEndpoints.node_id 16-18",  # KIP-951
    "Metadata: Brokers.node_id 0-13",
    "FindCoordinator: node_id 0-3, or an error",
    "FindCoordinator: Coordinators.node_id 4-6, or an error",  # KIP-699
    "Vote: NodeEndpoints.node_id 1-2",  # KIP-853
    "BeginQuorumEpoch: NodeEndpoints.node_id 1",
    "EndQuorumEpoch: NodeEndpoints.node_id 1",
    "DescribeQuorum: Nodes.Listeners.node_id 2, every listener",  # KIP-853
    "FetchSnapshot: NodeEndpoints.node_id 1",
    "DescribeCluster: Brokers.broker_id 0-2",
    "ShareFetch: NodeEndpoints.node_id 0-2",  # KIP-932
    "ShareAcknowledge: NodeEndpoints.node_id 0-2",
    "UpdateRaftVoter: CurrentLeader.leader_id 0",
]
# String fields of responses whose names could mean an address, and that are none of a broker's.
LOOK_ALIKES = {
    "DescribeGroups: Groups.Members.ClientHost": "where the member is, as the broker sees it; without a port",
    "ConsumerGroupDescribe: Groups.Members.ClientHost": "the same (KIP-848)",
    "ShareGroupDescribe: Groups.Members.ClientHost": "the same (KIP-932)",
    "StreamsGroupDescribe: Groups.Members.ClientHost": "the same (KIP-1071)",
    "StreamsGroupDescribe: Groups.Members.UserEndpoint.Host": "application.server: of the application, not of a broker",
    "StreamsGroupHeartbeat: PartitionsByUserEndpoint.UserEndpoint.Host": "the same",
    "DescribeAcls: Resources.Acls.Host": "from where the principal may come",
    "DeleteAcls: FilterResults.MatchingAcls.Host": "the same",
    "DescribeQuorum: Nodes.Listeners.Name": "the listener's name; its host is a place",
}
HINTS = ("host", "address", "endpoint", "listener", "url", "advertised", "dns")


def shown(api_key: int) -> Iterator[str]:
    for place in address_fields(api_key):
        path = "".join(f"{field.name}." for field in place.path)
        ways = (", or an error" if place.has_error_code else "") + (", every listener" if place.names_listeners else "")
        yield f"{facts().apis[api_key].name}: {path}{place.node_id} {place.versions}{ways}"


def test_every_place_of_the_facts_is_one_we_have_thought_about() -> None:
    assert [line for api_key in facts().apis for line in shown(api_key)] == PLACES


def strings(fields: tuple[Field, ...], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in fields:
        if field.type == "string":
            yield (*path, field.name)
        yield from strings(field.fields, (*path, field.name))


def test_everything_that_looks_like_an_address_is_a_place_or_known_not_to_be() -> None:
    found = set()
    for api_key, api in facts().apis.items():
        ours = {(*(field.name for field in place.path), "Host") for place in address_fields(api_key)}
        for layout in facts().layouts(f"{api.name}Response"):
            for path in strings(layout.fields, ()):
                if path not in ours and any(hint in name.lower() for name in path[-2:] for hint in HINTS):
                    found.add(f"{api.name}: {'.'.join(path)}")
    racks = {name for name in found if name.endswith(".NodeEndpoints.Rack") or name.endswith(": NodeEndpoints.Rack")}
    assert found - racks == set(LOOK_ALIKES)


def test_no_place_for_an_api_that_nobody_knows() -> None:
    assert address_fields(999) == ()


def test_which_are_held_and_of_which_the_end_is_enough() -> None:
    wants = responses_with_addresses()
    tails = {(api_key, version) for (api_key, version), want in wants.items() if want is Want.TAIL}
    assert tails == (
        {(0, version) for version in range(10, 14)}
        | {(1, version) for version in range(16, 19)}
        | {(api_key, version) for api_key in (78, 79) for version in range(3)}
        | {(59, 1)}
    )
    heads = {(api_key, version) for (api_key, version), want in wants.items() if want is Want.HEAD}
    assert heads == {(3, version) for version in range(14)} | {(60, version) for version in range(3)}
    assert wants[10, 6] is wants[52, 1] is wants[55, 2] is Want.HOLD
    assert (1, 15) not in wants
    assert (55, 1) not in wants


@pytest.mark.parametrize(
    ("api_key", "api_version", "behind"),
    [
        (3, 0, "topics"),
        (3, 1, "controllerId"),
        (3, 13, "clusterId"),
        (60, 2, "clusterAuthorizedOperations"),
        (10, 6, None),
    ],
)
def test_where_the_beginning_ends(api_key: int, api_version: int, behind: str | None) -> None:
    assert head_end(api_key, api_version) == behind


def test_of_which_the_end_can_be_rewritten() -> None:
    found = {facts().apis[key].name for key, version in responses_with_addresses() if ends_with_addresses(key, version)}
    assert found == {line.partition(":")[0] for line in PLACES} - {"Metadata", "DescribeCluster"}
    assert not ends_with_addresses(10, 3)  # its only address is the message's own


@pytest.mark.parametrize(
    ("api_key", "api_version", "first"),
    [(0, 10, None), (1, 16, None), (1, 18, None), (59, 1, None), (78, 0, "nodeEndpoints"), (79, 2, "nodeEndpoints")],
)
def test_where_the_end_begins(api_key: int, api_version: int, first: str | None) -> None:
    assert tail_start(api_key, api_version) == first

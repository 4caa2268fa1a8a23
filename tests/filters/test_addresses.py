"""Where the facts carry addresses of brokers: a new Kafka that adds a place, or something like one, fails here."""

from collections.abc import Iterator

import pytest

from kproxy.filters.addresses import (
    address_fields,
    ends_with_addresses,
    head_end,
    responses_with_addresses,
    tail_start,
)
from kproxy.filters.contract import Want
from kproxy.protocol import facts
from kproxy.protocol.facts import Field

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

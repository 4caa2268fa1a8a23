"""Ids replaced in requests, on messages built by hand: what a second cluster handed out in place of the first one's."""

from typing import Any

from kproxy.protocol import message
from kproxy.replay.identities import Identities


def made(name: str, version: int, json: str) -> Any:
    return message(name).from_json(version, json)


def listed(epoch: int) -> Any:
    json = (
        '{"replicaId": -1, "isolationLevel": 0, "topics": [{"name": "orders", "partitions":'
        f' [{{"partitionIndex": 2, "currentLeaderEpoch": {epoch}, "timestamp": -1}}]}}]}}'
    )
    return made("ListOffsetsRequest", 6, json)


def test_leader_epochs() -> None:
    identities = Identities()
    request = listed(17)
    identities.translate("ListOffsetsRequest", request)
    assert request == listed(-1)  # not known: the broker shall not check it
    identities.leader_epochs["orders", 2, 17] = 3
    request = listed(17)
    identities.translate("ListOffsetsRequest", request)
    assert request == listed(3)


def test_replicas_on_one_node() -> None:
    identities = Identities(nodes={1: 0, 2: 0, 3: 0})
    json = '{{"timeoutMs": 1, "topics": [{{"name": "t", "partitions": [{{"partitionIndex": 0, "replicas": {}}}]}}]}}'
    request = made("AlterPartitionReassignmentsRequest", 0, json.format([3, 1]))
    identities.translate("AlterPartitionReassignmentsRequest", request)
    assert request == made("AlterPartitionReassignmentsRequest", 0, json.format([0]))


def test_a_brokers_settings_are_asked_of_the_node_that_it_is_now() -> None:
    identities = Identities(nodes={1: 7})
    json = (
        '{{"resources": [{{"resourceType": {}, "resourceName": "1", "configurationKeys": null}}],'
        ' "includeSynonyms": false, "includeDocumentation": false}}'
    )
    broker, topic = (made("DescribeConfigsRequest", 4, json.format(kind)) for kind in (4, 2))  # ConfigResource.Type
    assert identities.translate("DescribeConfigsRequest", broker) and broker.resources[0].resource_name == "7"
    assert not identities.translate("DescribeConfigsRequest", topic)

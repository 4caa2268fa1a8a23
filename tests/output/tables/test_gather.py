"""What is found anywhere in a body; the plans are made from the facts."""

import pytest

from kproxy.output.tables.gather import Found, gather, plan_of
from kproxy.protocol import message


def found_in(name: str, version: int, json: str) -> Found:
    found = Found()
    gather(plan_of(name, version), message(name).from_json(version, json), found)
    return found


def test_offset_fetch_of_many_groups() -> None:
    text = """{"groups": [{"groupId": "a", "memberId": null, "memberEpoch": -1, "topics":
        [{"name": "t", "partitionIndexes": [0, 1]}, {"name": "u", "partitionIndexes": [5]}]},
        {"groupId": "b", "memberId": null, "memberEpoch": -1, "topics": null}], "requireStable": false}"""
    found = found_in("OffsetFetchRequest", 9, text)
    assert list(found.groups) == ["a", "b"]
    assert list(found.topics) == ["t", "u"]
    assert found.partitions == 3


def test_error_codes_at_every_depth() -> None:
    text = """{"throttleTimeMs": 0, "errorCode": 41, "resultsByTransaction": [{"transactionalId": "tx", "topicResults":
        [{"name": "t", "resultsByPartition": [{"partitionIndex": 0, "partitionErrorCode": 3},
        {"partitionIndex": 1, "partitionErrorCode": 0}, {"partitionIndex": 2, "partitionErrorCode": 3}]}]}]}"""
    found = found_in("AddPartitionsToTxnResponse", 4, text)
    assert list(found.error_codes) == [41, 3]
    assert list(found.transactional_ids) == ["tx"]


def test_topic_ids_but_not_the_id_of_none() -> None:
    text = """{"topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": "t"},
        {"topicId": "pmO91lHxS7OjVeK-fFGfFA", "name": null}],
        "allowAutoTopicCreation": true, "includeTopicAuthorizedOperations": false}"""
    found = found_in("MetadataRequest", 12, text)
    assert (list(found.topics), list(found.topic_ids)) == (["t"], ["pmO91lHxS7OjVeK-fFGfFA"])


@pytest.mark.parametrize(("name", "version"), [("ApiVersionsRequest", 4), ("SaslHandshakeRequest", 1)])
def test_a_body_with_nothing_to_find_is_not_visited(name: str, version: int) -> None:
    assert not plan_of(name, version).leads_somewhere

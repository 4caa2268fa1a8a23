"""Requests as older and newer brokers take them: through the codec, from Kafka's JSON to Kafka's JSON."""

import json
from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import struct_types
from kproxy.replay.reshaping import several
from kproxy.replay.versions import Unsendable, encode_at

FORMS = [  # API, a version and its JSON, another version and its JSON
    ("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]}, 3, {"key": "g", "keyType": 0}),
    (
        "OffsetFetch",
        8,
        {"groups": [{"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0, 1]}]}], "requireStable": True},
        7,
        {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0, 1]}], "requireStable": True},
    ),
    (
        "OffsetFetch",
        8,
        {"groups": [{"groupId": "g", "topics": None}], "requireStable": False},
        7,
        {"groupId": "g", "topics": None, "requireStable": False},
    ),
    (
        "LeaveGroup",
        3,
        {"groupId": "g", "members": [{"memberId": "m", "groupInstanceId": None}]},
        2,
        {"groupId": "g", "memberId": "m"},
    ),
    (
        "DeleteTopics",
        6,
        {"topics": [{"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 5},
        5,
        {"topicNames": ["t"], "timeoutMs": 5},
    ),
]


@pytest.mark.parametrize(("api", "new", "new_json", "old", "old_json"), FORMS)
def test_both_ways(api: str, new: int, new_json: Any, old: int, old_json: Any) -> None:
    of = message(f"{api}Request")
    ways = ((new, new_json, old, old_json), (old, old_json, new, new_json))
    for version, text, other, wanted in ways:
        encoded = encode_at(of, other, of.from_json(version, json.dumps(text)), {}, {})
        assert encoded.body == of.encode(other, of.from_json(other, json.dumps(wanted)))
        assert encoded.lost == ()


def test_what_asks_for_several_things_at_once() -> None:
    of = message("FindCoordinatorRequest")
    request = of.from_json(4, '{"keyType": 0, "coordinatorKeys": ["g", "h"]}')
    with pytest.raises(Unsendable, match="version 3: it names 2 coordinators, and this version can only name one"):
        encode_at(of, 3, request, {}, {})


def test_answers() -> None:
    found: Any = message("FindCoordinatorResponse").from_json(
        0, '{"errorCode": 15, "nodeId": -1, "host": "", "port": -1}'
    )
    request = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](key="g")
    several(ApiKey.FIND_COORDINATOR, request, found, 0)
    [one] = found.coordinators
    assert (one.key, one.error_code, one.node_id) == ("g", 15, -1)
    text = '{"partitionIndex": 3, "committedOffset": 7, "committedLeaderEpoch": -1, "metadata": "", "errorCode": 0}'
    offsets: Any = message("OffsetFetchResponse").from_json(
        7, f'{{"throttleTimeMs": 0, "topics": [{{"name": "t", "partitions": [{text}]}}], "errorCode": 0}}'
    )
    asked = struct_types("OffsetFetchRequest")["OffsetFetchRequest"](group_id="g")
    several(ApiKey.OFFSET_FETCH, asked, offsets, 7)
    [group] = offsets.groups
    [topic] = group.topics
    assert (group.group_id, topic.name) == ("g", "t") and topic.partitions[0].committed_offset == 7

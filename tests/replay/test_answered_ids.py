"""Ids learned from two answers to a request, on messages built by hand."""

from typing import Any

from kproxy.protocol import message
from kproxy.replay.answered_ids import learn_ids
from kproxy.replay.identities import Identities, Place
from kproxy.replay.producer_ids import Producer

OLD, NEW = "OldTopicIdAAAAAAAAAAAA", "NewTopicIdAAAAAAAAAAAA"


def made(name: str, version: int, json: str) -> Any:
    return message(name).from_json(version, json)


def joined(generation: int, member: str) -> Any:
    return made(
        "JoinGroupResponse",
        5,
        f'{{"throttleTimeMs": 0, "errorCode": 0, "generationId": {generation}, "protocolName": "range", "leader": "{member}",'
        f' "memberId": "{member}", "members": [{{"memberId": "{member}", "groupInstanceId": null, "metadata": ""}}]}}',
    )


def heartbeat(generation: int, member: str, group: str = "g") -> Any:
    json = f'{{"groupId": "{group}", "generationId": {generation}, "memberId": "{member}", "groupInstanceId": null}}'
    return made("HeartbeatRequest", 4, json)


def test_a_member_and_its_generation() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(4, "old-1")
    assert identities.translate("HeartbeatRequest", beat)
    assert beat == heartbeat(9, "new-1")
    other = heartbeat(4, "old-1", group="another")  # generations are a group's own
    identities.translate("HeartbeatRequest", other)
    assert other == heartbeat(4, "new-1", group="another")


def test_a_generation_that_only_another_member_has_shown() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(4, "old-2")
    identities.translate("HeartbeatRequest", beat)
    assert beat == heartbeat(9, "old-2")


def test_special_values_stay() -> None:
    identities = Identities()
    learn_ids(identities, "JoinGroupResponse", joined(4, "old-1"), joined(9, "new-1"), Place(group="g"))
    beat = heartbeat(-1, "")
    assert not identities.translate("HeartbeatRequest", beat)


def test_topic_ids() -> None:
    identities = Identities({OLD: "orders"})
    answer = (
        '{{"throttleTimeMs": 0, "topics": [{{"name": "orders", "topicId": "{}", "errorCode": 0, "errorMessage": null,'
    )
    answer += '"topicConfigErrorCode": 0, "numPartitions": 1, "replicationFactor": 1, "configs": null}}]}}'
    old, new = (made("CreateTopicsResponse", 7, answer.format(topic_id)) for topic_id in (OLD, NEW))
    learn_ids(identities, "CreateTopicsResponse", old, new, Place())
    delete = '{{"topics": [{{"name": null, "topicId": "{}"}}], "timeoutMs": 1}}'
    request = made("DeleteTopicsRequest", 6, delete.format(OLD))
    assert identities.translate("DeleteTopicsRequest", request)
    assert request == made("DeleteTopicsRequest", 6, delete.format(NEW))


def initialized(producer_id: int, epoch: int) -> Any:
    json = f'{{"throttleTimeMs": 0, "errorCode": 0, "producerId": {producer_id}, "producerEpoch": {epoch}}}'
    return made("InitProducerIdResponse", 4, json)


def end_transaction(producer_id: int, epoch: int) -> Any:
    json = f'{{"transactionalId": "t", "producerId": {producer_id}, "producerEpoch": {epoch}, "committed": true}}'
    return made("EndTxnRequest", 3, json)


def test_producers() -> None:
    identities = Identities()
    learn_ids(identities, "InitProducerIdResponse", initialized(5, 1), initialized(7_000, 0), Place())
    request = end_transaction(5, 1)
    assert identities.translate("EndTxnRequest", request) and request == end_transaction(7_000, 0)
    request = end_transaction(5, 3)  # an epoch that was not seen: as far from the one that was
    assert identities.translate("EndTxnRequest", request) and request == end_transaction(7_000, 2)
    request = end_transaction(6, 1)
    assert not identities.translate("EndTxnRequest", request)


def test_a_refused_producer_teaches_nothing() -> None:
    identities = Identities()
    learn_ids(identities, "InitProducerIdResponse", initialized(-1, -1), initialized(7_000, 0), Place())
    assert identities.producer(-1, -1) == Producer(-1, -1)
    assert not identities.producers


def test_what_is_learned_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("kproxy.replay.identities.MOST", 2)
    identities = Identities()
    for number in range(5):
        learn_ids(
            identities, "JoinGroupResponse", joined(1, f"old-{number}"), joined(1, f"new-{number}"), Place(group="g")
        )
    assert len(identities.members) == 2

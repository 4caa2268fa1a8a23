"""Two answers compared, built by hand from Kafka's JSON: what is told and why, and what is left out."""

import copy
from typing import Any

from kproxy.protocol import ApiKey, facts, message
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.protocol.structs import struct_types
from kproxy.replay import explaining
from kproxy.replay.comparing import (
    Assigned,
    Difference,
    Fetched,
    LeftOut,
    class_of,
    compare,
    error_codes_of,
    make_next_heartbeat,
)
from kproxy.replay.explaining import explain
from kproxy.replay.identities import Identities, Place
from kproxy.replay.recording import Recorded
from tests.support.messages import make
from tests.support.replayed import recorded


def listed(offset: int, error: int = 0, partition: int = 1) -> Any:
    json = (
        '{"throttleTimeMs": 3, "topics": [{"name": "orders", "partitions": [{'
        f'"partitionIndex": {partition}, "errorCode": {error}, "timestamp": 77, "offset": {offset}, "leaderEpoch": 4}}]}}]}}'
    )
    return message("ListOffsetsResponse").from_json(6, json)


def compared_to(recorded: Any, new: Any, name: str = "ListOffsetsResponse", versions: tuple[int, int] = (6, 6)) -> Any:
    return compare(name, recorded, new, versions, Identities(), Place())


def test_the_same() -> None:
    compared = compared_to(listed(5), listed(5))
    assert compared.differences == [] and not compared.left_out


def test_fields_that_differ() -> None:
    where = "topics[orders].partitions[1]."
    assert compared_to(listed(5), listed(6)).differences == [
        Difference("topics.partitions.offset", f"{where}offset", "5", "6")
    ]


def test_what_follows_from_an_error_is_not_told_beside_it() -> None:
    compared = compared_to(listed(5), listed(-1, error=6))
    where = "topics[orders].partitions[1].errorCode"
    assert compared.differences == [Difference("topics.partitions.errorCode", where, "NONE", "NOT_LEADER_OR_FOLLOWER")]
    assert compared.left_out == {LeftOut.FOLLOWS: 1}


def test_offsets_that_moved_with_their_log() -> None:
    identities = Identities(shifts={("orders", 1): -3})

    def differences(new: int, partition: int = 1) -> int:
        old, other = listed(5, partition=partition), listed(new, partition=partition)
        return len(compare("ListOffsetsResponse", old, other, (6, 6), identities, Place()).differences)

    assert differences(2) == 0 and differences(3) == 1 and differences(2, partition=0) == 1


def joined(*members: str, leader: str = "a") -> Any:
    own = "".join(f'{{"memberId": "{one}", "groupInstanceId": null, "metadata": "AAE="}},' for one in members).rstrip(
        ","
    )
    json = (
        '{"throttleTimeMs": 0, "errorCode": 0, "generationId": 2, "protocolType": "consumer", "protocolName": "range",'
        f' "leader": "{leader}", "skipAssignment": false, "memberId": "a", "members": [{own}]}}'
    )
    return message("JoinGroupResponse").from_json(9, json)


def test_another_leader_is_told_of_the_members() -> None:
    compared = compared_to(joined("a", "b"), joined(leader="b"), "JoinGroupResponse", (9, 9))
    assert compared.differences == [] and compared.left_out[LeftOut.LEADER] == 1
    [told] = compared_to(joined("a", "b"), joined("a"), "JoinGroupResponse", (9, 9)).differences
    assert (told.where, told.recorded, told.new) == ("members[b]", "present", "(absent)")


def test_what_is_left_out_is_counted() -> None:
    new = listed(5)
    new.throttle_time_ms, new.topics[0].partitions[0].timestamp, new.topics[0].partitions[0].leader_epoch = 0, 1, 0
    compared = compared_to(listed(5), new)
    assert compared.differences == []
    assert compared.left_out == {LeftOut.THROTTLE: 1, LeftOut.TIMES: 1, LeftOut.IDS: 1}


def test_elements_that_are_only_there_once() -> None:
    compared = compared_to(listed(5, partition=1), listed(5, partition=2))
    assert [(one.where, one.recorded, one.new) for one in compared.differences] == [
        ("topics[orders].partitions[1]", "present", "(absent)"),
        ("topics[orders].partitions[2]", "(absent)", "present"),
    ]


def test_a_cluster_that_was_not_ready_and_is() -> None:
    compared = compared_to(listed(-1, error=5), listed(9))  # LEADER_NOT_AVAILABLE
    assert compared.differences == [] and compared.left_out == {LeftOut.NOT_READY: 1}
    [told] = compared_to(listed(9), listed(-1, error=5)).differences  # the other way round it is told
    assert (told.path, told.recorded, told.new) == ("topics.partitions.errorCode", "NONE", "LEADER_NOT_AVAILABLE")


def test_fields_that_one_version_lacks() -> None:
    old = message("ListOffsetsResponse").from_json(
        1,
        '{"topics": [{"name": "orders", "partitions": [{"partitionIndex": 1, "errorCode": 0, "timestamp": 77, "offset": 5}]}]}',
    )
    assert compared_to(old, listed(5), versions=(1, 6)).left_out == {}


def test_error_codes() -> None:
    assert list(error_codes_of(listed(5, error=6))) == [6]


def test_credentials_are_not_shown() -> None:
    json = '{{"errorCode": 0, "errorMessage": null, "authBytes": "{}", "sessionLifetimeMs": 0}}'
    old, new = (message("SaslAuthenticateResponse").from_json(2, json.format(data)) for data in ("AAAA", "BBBB"))
    [one] = compared_to(old, new, "SaslAuthenticateResponse", (2, 2)).differences
    assert (one.recorded, one.new) == ("(withheld)", "(withheld)")


def described(name: str, value: str, *, sensitive: bool = False) -> Any:
    json = (
        '{"throttleTimeMs": 0, "results": [{"errorCode": 0, "errorMessage": null, "resourceType": 2, "resourceName": "t",'
        f' "configs": [{{"name": "{name}", "value": "{value}", "readOnly": false, "configSource": 1, "isSensitive":'
        f' {str(sensitive).lower()}, "synonyms": [{{"name": "{name}", "value": "{value}", "source": 1}}], "configType": 2,'
        ' "documentation": null}]}]}'
    )
    return message("DescribeConfigsResponse").from_json(4, json)


def test_settings_are_shown_unless_they_may_be_secrets() -> None:
    def values(name: str, **mark: bool) -> list[tuple[str, str]]:
        old, new = described(name, "1", **mark), described(name, "2", **mark)
        compared = compared_to(old, new, "DescribeConfigsResponse", (4, 4))
        return [(one.recorded, one.new) for one in compared.differences]

    assert values("retention.ms") == [("1", "2")] * 2  # the synonym, too
    assert values("ssl.key.password") == [("(withheld)", "(withheld)")] * 2
    assert values("some.plugin", sensitive=True) == [("(withheld)", "(withheld)")] * 2


def test_names_that_a_terminal_would_obey() -> None:
    old, new = listed(5), listed(5)
    old.topics[0].name = "a\x1b[2J\u202e"
    assert all(one.where.isprintable() for one in compared_to(old, new).differences)


CLASSES = {
    ("FetchResponse", "FetchResponse", "ThrottleTimeMs"): LeftOut.THROTTLE,
    ("MetadataResponse", "MetadataResponse", "ClusterId"): LeftOut.NODES,
    ("MetadataResponse", "MetadataResponsePartition", "ReplicaNodes"): LeftOut.NODES,
    ("MetadataResponse", "MetadataResponseTopic", "TopicId"): LeftOut.IDS,
    ("MetadataResponse", "MetadataResponseTopic", "ErrorCode"): None,
    ("MetadataResponse", "MetadataResponseTopic", "Name"): None,
    ("ListOffsetsResponse", "ListOffsetsPartitionResponse", "Offset"): LeftOut.OFFSETS,
    ("ProduceResponse", "PartitionProduceResponse", "BaseOffset"): LeftOut.OFFSETS,
    ("ProduceResponse", "PartitionProduceResponse", "LogAppendTimeMs"): LeftOut.TIMES,
    ("ProduceResponse", "PartitionProduceResponse", "ErrorMessage"): LeftOut.TEXTS,
    ("OffsetFetchResponse", "OffsetFetchResponsePartition", "CommittedOffset"): LeftOut.OFFSETS,
    ("SyncGroupResponse", "SyncGroupResponse", "Assignment"): None,
    ("DescribeLogDirsResponse", "DescribeLogDirsPartition", "PartitionSize"): LeftOut.SIZES,
    ("DescribeConfigsResponse", "DescribeConfigsResourceResult", "Value"): None,
}


def test_classes_of_fields_that_are_not_compared() -> None:
    for (name, struct, field_name), left_out in CLASSES.items():
        [field] = [field for field in struct_types(name)[struct].fields if field.name == field_name]
        assert class_of(name, field) is left_out, (name, field_name)


def test_no_error_code_is_left_out() -> None:
    names = [f"{api.name}Response" for api in facts().apis.values()]
    fields = [(name, field) for name in names for struct in struct_types(name).values() for field in struct.fields]
    codes = [(name, field) for name, field in fields if field.name.endswith("ErrorCode")]
    assert len(codes) > 100
    assert [(name, field.name) for name, field in codes if class_of(name, field) is not None] == []


NEW_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def first_told() -> tuple[Recorded, dict[str, str]]:
    """The heartbeat of capture 02 whose answer brings the partitions, and the names of recorded topic ids."""
    recording = recorded(2)
    beats = (one for one in recording.requests if one.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return next(one for one in beats if one.response is not None and decoded(one).assignment), recording.names


def decoded(one: Recorded) -> Any:
    assert one.response is not None
    return one.response.decode()


def assignment(*partitions: int, epoch: int = 1) -> Any:
    """None of them: nothing is told."""
    topics = [{"topic_id": NEW_ID, "partitions": list(partitions)}]
    told = {"topic_partitions": topics} if partitions else None
    return make("ConsumerGroupHeartbeatResponse", member_epoch=epoch, member_id="m", assignment=told)


def test_what_was_told_before_or_comes_later_is_the_same() -> None:
    beat, names = first_told()
    [topic] = decoded(beat).assignment.topic_partitions
    assigned = Assigned(names.__getitem__, {NEW_ID: "rdtx"}.__getitem__)
    assert names[topic.topic_id] == "rdtx"  # captures/README.md
    assert not assigned.is_as_recorded(beat, assignment())
    assert assigned.is_as_recorded(beat, assignment(*topic.partitions))
    assert assigned.is_as_recorded(beat, assignment()) and assigned.difference(beat, assignment()) is None


def test_others_are_told_and_not_waited_for_again() -> None:
    beat, names = first_told()
    assigned = Assigned(names.__getitem__, {NEW_ID: "rdtx"}.__getitem__)
    assert not assigned.is_as_recorded(beat, assignment(77))
    found = assigned.difference(beat, assignment())
    assert found is not None and found.new == "rdtx-77" and found.recorded.startswith("rdtx-0")
    assert assigned.is_as_recorded(beat, assignment(78))


def test_the_next_heartbeat_of_a_member() -> None:
    beat, _ = first_told()
    body = beat.body()
    make_next_heartbeat(body, assignment(epoch=9))
    assert (body.member_epoch, body.member_id) == (9, "m")


HERE = (1, 4)


def fetched_answer(records: bytes = b"", error: int = 0) -> Any:
    data = {"partition_index": 0, "error_code": error, "records": records}
    return make("FetchResponse", responses=[{"topic": "t", "partitions": [data]}])


def batches() -> list[bytes]:
    """Two record batches, of offsets 0 to 3 and 4 to 7."""
    records = [Record(offset=offset, timestamp=1, value=bytes([offset])) for offset in range(8)]
    return [write_batches([RecordBatch(records[start : start + 4])]) for start in (0, 4)]


def fetched() -> Fetched:
    return Fetched(str, str)


def test_divided_otherwise() -> None:
    one, two = batches()
    both = fetched()
    compared = both.add(HERE, fetched_answer(one + two), fetched_answer(one))
    assert compared.differences == [] and not compared.left_out
    assert both.add(HERE, copy.deepcopy(fetched_answer()), fetched_answer(two)).differences == []
    assert list(both.differences()) == []


def test_a_partition_that_only_one_answer_has() -> None:
    [one, _] = batches()
    both = fetched()
    nothing = make("FetchResponse")
    assert both.add(HERE, fetched_answer(one), nothing).left_out == {LeftOut.DIVISION: 1}
    [(connection, difference)] = both.differences()
    assert connection == HERE and difference.where == "responses[t].partitions[0].records"
    assert difference.new.startswith("0 records, ")


def test_other_records() -> None:
    one, two = batches()
    both = fetched()
    both.add(HERE, fetched_answer(one + two), fetched_answer(two))
    [(_, difference)] = both.differences()
    assert difference.new.endswith("from offset 0 on")


def test_errors() -> None:
    compared = fetched().add(HERE, fetched_answer(), fetched_answer(error=1))
    [difference] = compared.differences
    assert (difference.recorded, difference.new) == ("NONE", "OFFSET_OUT_OF_RANGE")
    old, new = fetched_answer(), fetched_answer()
    new.error_code = 70
    assert [one.new for one in fetched().add(HERE, old, new).differences] == ["FETCH_SESSION_ID_NOT_FOUND"]


def test_what_is_remembered_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("kproxy.replay.comparing.MOST_RECORDS", 3)
    [one, _] = batches()
    both = fetched()
    both.add(HERE, fetched_answer(one), fetched_answer(one))
    assert both.is_full


ERROR = "topics.partitions.errorCode"
THERE, ABSENT = "present", "(absent)"
CASES = [
    ("ApiVersions", "apiKeys.maxVersion", "13", "11", explaining.SPOKEN),
    ("CreateTopics", "topics.configs.value", "604800000", "-1", explaining.SETTINGS),
    ("CreateTopics", "topics.replicationFactor", "3", "1", explaining.FEWER),
    ("CreateTopics", "topics.errorCode", "NONE", "TOPIC_ALREADY_EXISTS", explaining.THERE_ALREADY),
    ("DescribeConfigs", "results.configs.value", "5", "50", explaining.SETTINGS),
    ("Fetch", "responses.partitions.errorCode", "NONE", "OFFSET_OUT_OF_RANGE", explaining.BEFORE),
    (
        "Fetch",
        "responses.partitions.records",
        "3 records",
        "0 records, 3 missing or others, from offset 0 on",
        explaining.BEFORE,
    ),
    ("Heartbeat", "errorCode", "NONE", "UNKNOWN_MEMBER_ID", explaining.JOINED),
    ("Heartbeat", "errorCode", "REBALANCE_IN_PROGRESS", "NONE", explaining.REBALANCED),
    ("ConsumerGroupHeartbeat", "assignment", THERE, "null", explaining.ASSIGNED),
    ("ListGroups", "groups", THERE, ABSENT, explaining.THERE_BEFORE),
    ("ListGroups", "groups", ABSENT, THERE, explaining.THERE_ALREADY),
    ("ListOffsets", "topics.partitions.offset", "104", "0", explaining.BEFORE),
    ("OffsetFetch", "groups.topics.partitions.committedOffset", "104", "nothing committed", explaining.COMMITTED),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "TOPIC_AUTHORIZATION_FAILED", explaining.REFUSED),
    ("Produce", "responses.partitionResponses.errorCode", "GROUP_AUTHORIZATION_FAILED", "NONE", explaining.ALLOWED),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "UNKNOWN_TOPIC_OR_PARTITION", explaining.LACKING),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "NOT_COORDINATOR", explaining.UNREADY),
    ("OffsetCommit", ERROR, "NONE", "GROUP_ID_NOT_FOUND", explaining.JOINED),
    ("ListOffsets", ERROR, "INVALID_TIMESTAMP", "NONE", None),
    ("DescribeCluster", "clusterAuthorizedOperations", "1", "2", None),
]


def test_reasons() -> None:
    for api, path, old, new, why in CASES:
        assert explain(api, Difference(path, path, old, new)) == why, (api, path, new)


def test_telemetry_is_told_by_its_place() -> None:
    where = "apiKeys[GetTelemetrySubscriptions]"
    assert explain("ApiVersions", Difference("apiKeys", where, THERE, ABSENT)) == explaining.TELEMETRY


def test_two_refusals_are_told_with_what_the_new_one_means() -> None:
    found = explain("AddRaftVoter", Difference("errorCode", "errorCode", "REQUEST_TIMED_OUT", "INVALID_CONFIG"))
    refused = explain("ListOffsets", Difference(ERROR, ERROR, "NONE", "CORRUPT_MESSAGE"))
    assert refused is not None and refused.startswith(f"{explaining.REFUSED_NOW}: ")
    assert (
        found is not None
        and found.startswith(explaining.ANOTHER_REFUSAL)
        and len(found) > len(explaining.ANOTHER_REFUSAL) + 10
    )

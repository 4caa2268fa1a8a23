"""Two answers compared, built by hand from Kafka's JSON: what is told, and what is left out."""

from typing import Any

from kproxy.protocol import message
from kproxy.replay.comparing import Difference, compare, error_codes_of
from kproxy.replay.identities import Identities, Place
from kproxy.replay.left_out import LeftOut


def listed(offset: int, error: int = 0, partition: int = 1) -> Any:
    json = (
        '{"throttleTimeMs": 3, "topics": [{"name": "orders", "partitions": [{'
        f'"partitionIndex": {partition}, "errorCode": {error}, "timestamp": 77, "offset": {offset}, "leaderEpoch": 4}}]}}]}}'
    )
    return message("ListOffsetsResponse").from_json(6, json)


def found(recorded: Any, new: Any, name: str = "ListOffsetsResponse", versions: tuple[int, int] = (6, 6)) -> Any:
    return compare(name, recorded, new, versions, Identities(), Place())


def test_the_same() -> None:
    compared = found(listed(5), listed(5))
    assert compared.differences == [] and not compared.left_out


def test_fields_that_differ() -> None:
    where = "topics[orders].partitions[1]."
    assert found(listed(5), listed(6)).differences == [
        Difference("topics.partitions.offset", f"{where}offset", "5", "6")
    ]


def test_what_follows_from_an_error_is_not_told_beside_it() -> None:
    compared = found(listed(5), listed(-1, error=6))
    where = "topics[orders].partitions[1].errorCode"
    assert compared.differences == [
        Difference("topics.partitions.errorCode", where, "NONE", "NOT_LEADER_OR_FOLLOWER"),
    ]
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
    compared = found(joined("a", "b"), joined(leader="b"), "JoinGroupResponse", (9, 9))
    assert compared.differences == [] and compared.left_out[LeftOut.LEADER] == 1
    [told] = found(joined("a", "b"), joined("a"), "JoinGroupResponse", (9, 9)).differences
    assert (told.where, told.recorded, told.new) == ("members[b]", "present", "(absent)")


def test_what_is_left_out_is_counted() -> None:
    new = listed(5)
    new.throttle_time_ms, new.topics[0].partitions[0].timestamp, new.topics[0].partitions[0].leader_epoch = 0, 1, 0
    compared = found(listed(5), new)
    assert compared.differences == []
    assert compared.left_out == {LeftOut.THROTTLE: 1, LeftOut.TIMES: 1, LeftOut.IDS: 1}


def test_elements_that_are_only_there_once() -> None:
    compared = found(listed(5, partition=1), listed(5, partition=2))
    assert [(one.where, one.recorded, one.new) for one in compared.differences] == [
        ("topics[orders].partitions[1]", "present", "(absent)"),
        ("topics[orders].partitions[2]", "(absent)", "present"),
    ]


def test_a_cluster_that_was_not_ready_and_is() -> None:
    compared = found(listed(-1, error=5), listed(9))  # LEADER_NOT_AVAILABLE
    assert compared.differences == [] and compared.left_out == {LeftOut.NOT_READY: 1}
    [told] = found(listed(9), listed(-1, error=5)).differences  # the other way round it is told
    assert (told.path, told.recorded, told.new) == ("topics.partitions.errorCode", "NONE", "LEADER_NOT_AVAILABLE")


def test_fields_that_one_version_lacks() -> None:
    old = message("ListOffsetsResponse").from_json(
        1,
        '{"topics": [{"name": "orders", "partitions": [{"partitionIndex": 1, "errorCode": 0, "timestamp": 77, "offset": 5}]}]}',
    )
    assert found(old, listed(5), versions=(1, 6)).left_out == {}


def test_error_codes() -> None:
    assert list(error_codes_of(listed(5, error=6))) == [6]


def test_credentials_are_not_shown() -> None:
    json = '{{"errorCode": 0, "errorMessage": null, "authBytes": "{}", "sessionLifetimeMs": 0}}'
    old, new = (message("SaslAuthenticateResponse").from_json(2, json.format(data)) for data in ("AAAA", "BBBB"))
    [one] = found(old, new, "SaslAuthenticateResponse", (2, 2)).differences
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
        compared = found(old, new, "DescribeConfigsResponse", (4, 4))
        return [(one.recorded, one.new) for one in compared.differences]

    assert values("retention.ms") == [("1", "2")] * 2  # the synonym, too
    assert values("ssl.key.password") == [("(withheld)", "(withheld)")] * 2
    assert values("some.plugin", sensitive=True) == [("(withheld)", "(withheld)")] * 2


def test_names_that_a_terminal_would_obey() -> None:
    old, new = listed(5), listed(5)
    old.topics[0].name = "a\x1b[2J\u202e"
    assert all(one.where.isprintable() for one in found(old, new).differences)

"""Error codes: names as in the facts, meaning and advice for every one of them."""

from importlib import resources

import pytest

from kproxy.protocol import facts
from kproxy.protocol.error_codes import ErrorCode, error_code, error_codes, error_name

# Code, name, whether its exception is a RetriableException: printed by Errors.values() of kafka-clients 4.3.1.
FROM_KAFKA = {
    -1: ("UNKNOWN_SERVER_ERROR", False),
    0: ("NONE", False),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", True),
    6: ("NOT_LEADER_OR_FOLLOWER", True),
    27: ("REBALANCE_IN_PROGRESS", False),
    47: ("INVALID_PRODUCER_EPOCH", False),
    79: ("MEMBER_ID_REQUIRED", False),
    100: ("UNKNOWN_TOPIC_ID", True),
    129: ("REBOOTSTRAP_REQUIRED", False),
    133: ("SHARE_SESSION_LIMIT_REACHED", True),
}


@pytest.mark.parametrize("code", FROM_KAFKA)
def test_names_and_retriability_are_kafkas(code: int) -> None:
    assert (error_code(code).name, error_code(code).retriable) == FROM_KAFKA[code]


def test_every_code_of_the_facts_has_a_meaning_and_advice() -> None:
    assert list(error_codes()) == [fact.code for fact in facts().errors] == list(range(-1, 134))
    for known in error_codes().values():
        assert known.meaning.endswith("."), known
        assert known.meaning[0].isupper(), known
        assert known.then, known
        assert not known.then.endswith("."), known
        assert len(known.meaning) <= 140, known


def test_the_names_in_the_file_are_those_of_the_facts() -> None:
    text = resources.files("kproxy.protocol").joinpath("error_meanings.txt").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    assert {int(row[0]): row[1] for row in rows} == {fact.code: fact.name for fact in facts().errors}


def test_a_code_of_the_future_has_a_name_too() -> None:
    assert error_name(31_999) == "UNKNOWN_31999"
    assert error_code(-32_768).then


def test_the_enum_has_the_codes_of_the_facts() -> None:
    assert {code.value: code.name for code in ErrorCode} == {fact.code: fact.name for fact in facts().errors}

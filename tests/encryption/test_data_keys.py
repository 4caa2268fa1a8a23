"""When data keys are made, kept and given up, against a key service that answers, is away, or refuses."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from kproxy.encryption import data_keys
from kproxy.encryption.data_keys import PAUSE_S, DataKeyLimits, DataKeys, KeyNotYet
from kproxy.encryption.envelope import Envelope
from kproxy.encryption.services.contract import KeyDestroyed, KeyServiceAway, KeyServiceError
from tests.support.encryption import GivenKeys

LIMITS = DataKeyLimits(records=100, age_s=60.0, away_s=30.0)


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def answered(ask: Callable[[], Any]) -> Any:
    """What *ask* returns when the service's thread is through."""
    while True:
        try:
            return ask()
        except KeyNotYet:
            time.sleep(0.0005)


def test_a_topic_is_written_with_one_data_key_until_its_age_or_count_is_reached() -> None:
    service, clock = GivenKeys(), Clock()
    keys = DataKeys(service, LIMITS, clock)
    with pytest.raises(KeyNotYet):
        keys.for_writing("orders", "kek")
    first = answered(lambda: keys.for_writing("orders", "kek"))
    assert answered(lambda: keys.for_writing("bills", "kek")) is not first
    clock.at = 59.0
    assert keys.for_writing("orders", "kek") is first
    clock.at = 60.0
    second = _other(keys, first)
    with second.sealing_values() as editor:
        for _ in range(100):
            editor.edited(b"")
    third = _other(keys, second)
    assert third is not second
    assert service.calls == [("new", "kek")] * 4


def test_a_data_key_is_used_up_by_what_the_cipher_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a value that is compressed before or in its batch too: 17 bytes are two blocks, and the tag is one."""
    monkeypatch.setattr(data_keys, "MOST_BLOCKS", 9)
    keys = DataKeys(GivenKeys(), LIMITS, Clock())
    first = answered(lambda: keys.for_writing("orders", "kek"))
    with first.sealing_values() as editor:
        for _ in range(2):
            editor.edited(bytes(17))
    assert answered(lambda: keys.for_writing("orders", "kek")) is first
    first.packing()(None, bytes(5_000))  # a few bytes are left of it
    assert _other(keys, first) is not first
    assert 9 <= first.blocks < 20


def test_what_a_worker_wrote_it_reads_without_the_service() -> None:
    service = GivenKeys()
    keys = DataKeys(service, LIMITS, Clock())
    answered(lambda: keys.for_writing("orders", "kek"))
    ((_, wrapped),) = service.plain
    assert keys.for_reading(Envelope("kek", "orders", wrapped)) is not None
    assert service.calls == [("new", "kek")]


def test_known_keys_go_on_while_the_service_is_away_for_so_long_and_no_longer() -> None:
    service, clock = GivenKeys(), Clock()
    keys = DataKeys(service, LIMITS, clock)
    first = answered(lambda: keys.for_writing("orders", "kek"))
    ((_, wrapped),) = service.plain
    read = keys.for_reading(Envelope("kek", "orders", wrapped))
    service.error = KeyServiceAway("the service does not answer")
    clock.at = 60.0
    _failed(keys)
    assert keys.for_writing("orders", "kek") is first
    assert keys.for_reading(Envelope("kek", "orders", wrapped)) is read
    clock.at = 90.0
    with pytest.raises(KeyServiceAway):
        answered(lambda: keys.for_writing("orders", "kek"))
    with pytest.raises(KeyServiceAway):
        answered(lambda: keys.for_reading(Envelope("kek", "orders", wrapped)))
    calls = len(service.calls)
    for _ in range(10):
        with pytest.raises(KeyServiceAway):
            keys.for_writing("orders", "kek")
    assert len(service.calls) == calls  # it is not asked with each request
    service.error = None
    clock.at += PAUSE_S
    assert answered(lambda: keys.for_writing("orders", "kek")) is not first


def test_a_destroyed_key_is_given_up_at_once_when_that_is_known() -> None:
    service, clock = GivenKeys(), Clock()
    keys = DataKeys(service, LIMITS, clock)
    answered(lambda: keys.for_writing("orders", "kek"))
    service.error = KeyDestroyed("there is no key 'kek'")
    clock.at = 61.0
    _failed(keys)
    with pytest.raises(KeyDestroyed):
        keys.for_writing("orders", "kek")


def test_names_of_topics_that_a_client_makes_up_cost_others_no_data_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_keys, "MOST_KEYS", 6)
    keys = DataKeys(GivenKeys(), LIMITS, Clock())
    first = answered(lambda: keys.for_writing("orders", "kek"))
    for number in range(20):
        answered(lambda topic=f"orders-{number}": keys.for_writing(topic, "kek"))
        assert keys.for_writing("orders", "kek") is first


@pytest.mark.parametrize("topic", ["orders-" + "é" * 125, "orders-\udcff"])
def test_a_topic_whose_name_no_record_can_have_is_no_outage(topic: str) -> None:
    service = GivenKeys()
    keys = DataKeys(service, LIMITS, Clock())
    with pytest.raises(KeyServiceError, match="the name of a topic has 1 to 255 bytes"):
        keys.for_writing(topic, "kek")
    assert (service.calls, keys.outage) == ([], None)


def _other(keys: DataKeys, before: Any) -> Any:
    """The data key that replaces another, when the service has answered."""
    while (key := answered(lambda: keys.for_writing("orders", "kek"))) is before:
        time.sleep(0.0005)
    return key


def _failed(keys: DataKeys) -> None:
    """Wait until the service has failed to answer."""
    while not keys._errors:
        try:
            keys.for_writing("orders", "kek")
        except KeyServiceError:
            return
        time.sleep(0.0005)

"""Each case with the error that Kafka's ClientMetricsManager answers it with (4.3: ClientMetricsManagerTest has most of them)."""

from typing import Any

import pytest

from kproxy.filters.telemetry.subscriptions import (
    MOST_BYTES_A_SECOND,
    MOST_PUSHES_A_SECOND,
    Subscriptions,
    TelemetryOptions,
)
from kproxy.protocol.constants import METADATA_TOPIC_ID, ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode
from tests.support.messages import make

OPTIONS = TelemetryOptions(push_interval=10.0, most_bytes=100)
ID = "AAECAwQFBgcICQoLDA0ODw"
OTHER = "EBESExQVFhcYGRobHB0eHw"


def ask(subscriptions: Subscriptions, instance_id: str, now: float) -> tuple[int, dict[str, Any]]:
    return subscriptions.ask(make("GetTelemetrySubscriptionsRequest", client_instance_id=instance_id), now)


def pushed(subscriptions: Subscriptions, now: float, instance_id: str = ID, **values: Any) -> str:
    given = {"subscription_id": subscriptions.subscription_id(instance_id), "metrics": b"x"}
    request = make("PushTelemetryRequest", client_instance_id=instance_id, **(given | values))
    return ErrorCode(subscriptions.push(request, now)).name


def test_of_more_clients_than_are_remembered_the_one_not_heard_of_for_longest_is_forgotten() -> None:
    subscriptions = Subscriptions(TelemetryOptions(push_interval=10.0, most_clients=2))
    third = "ICEiIyQlJicoKSorLC0uLw"
    for now, name in enumerate((ID, OTHER, third)):
        assert ask(subscriptions, name, float(now))[0] == 0
    assert ask(subscriptions, OTHER, 3.0)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(subscriptions, ID, 4.0)[0] == 0, "as if it came for the first time"


def test_what_comes_before_the_interval_is_over_is_throttled() -> None:
    subscriptions = Subscriptions(OPTIONS)
    assert ask(subscriptions, ID, 0.0)[0] == 0
    assert ask(subscriptions, ID, 9.9)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(subscriptions, 5.0) == "NONE", (
        "the first push after asking comes after half an interval at the earliest"
    )
    assert pushed(subscriptions, 14.9) == "THROTTLING_QUOTA_EXCEEDED"
    assert pushed(subscriptions, 15.0) == "NONE"
    assert ask(subscriptions, ID, 24.9)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(subscriptions, ID, 25.0)[0] == 0


def test_after_a_wrong_subscription_id_a_client_may_ask_at_once() -> None:
    subscriptions = Subscriptions(OPTIONS)
    ask(subscriptions, ID, 0.0)
    assert pushed(subscriptions, 5.0, subscription_id=1) == "UNKNOWN_SUBSCRIPTION_ID"
    assert ask(subscriptions, ID, 5.1)[0] == 0
    assert pushed(subscriptions, 16.0, compression_type=5) == "UNSUPPORTED_COMPRESSION_TYPE"
    assert ask(subscriptions, ID, 16.1)[0] == 0
    assert ask(subscriptions, ID, 16.2)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    subscriptions = Subscriptions(OPTIONS)
    ask(subscriptions, ID, 0.0)
    assert pushed(subscriptions, 5.0) == "NONE"
    assert pushed(subscriptions, 5.1, terminating=True) == "NONE"
    assert pushed(subscriptions, 20.0, terminating=True) == "INVALID_REQUEST"


@pytest.mark.parametrize("instance_id", [ZERO_UUID, METADATA_TOPIC_ID])
def test_an_id_that_is_none_is_an_invalid_request(instance_id: str) -> None:
    assert pushed(Subscriptions(OPTIONS), 0.0, instance_id) == "INVALID_REQUEST"


def test_size() -> None:
    assert pushed(Subscriptions(OPTIONS), 0.0, metrics=bytes(100)) == "NONE"
    assert pushed(Subscriptions(OPTIONS), 0.0, metrics=bytes(101)) == "TELEMETRY_TOO_LARGE"


def test_made_up_ids_do_not_buy_more_work() -> None:
    subscriptions = Subscriptions(OPTIONS)
    names = [str(number).rjust(22, "B") for number in range(MOST_PUSHES_A_SECOND + 1)]
    told = [pushed(subscriptions, 50.0, name) for name in names]
    assert told == ["NONE"] * MOST_PUSHES_A_SECOND + ["THROTTLING_QUOTA_EXCEEDED"]
    assert pushed(subscriptions, 51.0, "C" * 22) == "NONE"


def test_large_pushes_are_read_until_the_bytes_of_the_second_are_used_up() -> None:
    subscriptions = Subscriptions(OPTIONS)
    assert subscriptions.take_bytes(1.0, 4 * MOST_BYTES_A_SECOND), "the first, whatever its size"
    assert not subscriptions.take_bytes(1.9, 1)
    assert subscriptions.take_bytes(2.0, MOST_BYTES_A_SECOND - 1)
    assert subscriptions.take_bytes(2.0, 1)
    assert not subscriptions.take_bytes(2.0, 1)

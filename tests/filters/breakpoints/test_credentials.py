"""What cannot be stopped: APIs that carry credentials, and messages with secret settings. The words are Kafka's."""

import pytest

from kproxy.filters.breakpoints.credentials import carries_credentials, why_api_is_refused
from kproxy.protocol import message
from kproxy.protocol.facts import facts
from kproxy.protocol.ids import METADATA_TOPIC_ID
from tests.support.filtering import make, part

REFUSED = {
    *("SaslHandshake", "SaslAuthenticate", "AlterUserScramCredentials", "Envelope", "FetchSnapshot"),
    *(f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")),
}


def test_which_apis_cannot_be_stopped() -> None:
    assert {api.name for key, api in facts().apis.items() if why_api_is_refused(key) is not None} == REFUSED


@pytest.mark.parametrize(
    ("setting", "is_secret"),
    [
        ("sasl.jaas.config", True),
        ("ssl.keystore.password", True),
        ("listener.name.internal.ssl.key.password", True),
        ("a.setting.of.a.plugin", True),  # Kafka does not know it: it may be a secret
        ("retention.ms", False),
        ("cleanup.policy", False),
    ],
)
def test_a_secret_setting_is_not_shown(setting: str, is_secret: bool) -> None:
    config = part("IncrementalAlterConfigsRequest", "AlterableConfig", name=setting, config_operation=0, value="v")
    resource = part(
        "IncrementalAlterConfigsRequest", "AlterConfigsResource", resource_type=2, resource_name="t", configs=[config]
    )
    asked = make("IncrementalAlterConfigsRequest", resources=[resource], validate_only=False)
    codec = message("IncrementalAlterConfigsRequest")
    assert carries_credentials(codec, 1, asked) is is_secret


@pytest.mark.parametrize("is_sensitive", [False, True])
def test_what_a_broker_marks_as_sensitive_is_not_shown(is_sensitive: bool) -> None:
    config = part(
        "DescribeConfigsResponse", "DescribeConfigsResourceResult", name="x.y", value="v", is_sensitive=is_sensitive
    )
    result = part(
        "DescribeConfigsResponse", "DescribeConfigsResult", resource_type=4, resource_name="1", configs=[config]
    )
    answer = make("DescribeConfigsResponse", results=[result])
    codec = message("DescribeConfigsResponse")
    assert carries_credentials(codec, 4, answer) is is_sensitive


def test_the_log_of_the_controllers_is_not_shown() -> None:
    codec = message("FetchResponse")
    topic = part("FetchResponse", "FetchableTopicResponse", topic_id=METADATA_TOPIC_ID)
    answer = make("FetchResponse", responses=[topic])
    assert carries_credentials(codec, 13, answer)
    named = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="__cluster_metadata")]
    )
    assert carries_credentials(codec, 12, named)
    other = make("FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="orders")])
    assert not carries_credentials(codec, 12, other)

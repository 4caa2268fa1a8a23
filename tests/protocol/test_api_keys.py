"""ApiKey says what the facts say."""

from kproxy.protocol import ApiKey, facts
from kproxy.protocol.facts import snake_case


def test_every_api_of_the_facts_is_a_member_and_no_other() -> None:
    assert {key.value: key.name for key in ApiKey} == {
        number: snake_case(api.name).upper() for number, api in facts().apis.items()
    }
    assert len(ApiKey) == 93

"""What requests name, and how their responses went."""

import json
import re
from typing import Any

import pytest

from kproxy.filters.contract import Request
from kproxy.filters.error_responses import error_response
from kproxy.filters.named_resources import MOST_RESOURCES, errors_of, names_topics, resources_of
from kproxy.protocol.facts import Field, facts
from tests.support.filtering import connection, make, part
from tests.support.sample_requests import VERSIONS, sample_request
from tests.support.wire import newest_layout

ENTITIES = {"topicName", "groupId", "transactionalId"}


def texts(fields: tuple[Field, ...], struct: Any, version: int) -> set[str]:
    """The names of topics, groups and transactions in a request, found by another walk than the one under test."""
    found: set[str] = set()
    for field in fields:
        value = getattr(struct, field.attribute) if version in field.versions else None
        values = value if isinstance(value, list) else [value]
        if field.is_struct:
            found |= {text for each in values if each is not None for text in texts(field.fields, each, version)}
        elif field.entity in ENTITIES:
            found |= {each for each in values if each}
    return found


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_topic_group_and_transaction_is_named(api_key: int, version: int) -> None:
    sample = sample_request(api_key, version)
    layout = newest_layout(f"{facts().apis[api_key].name}Request", version)
    named = {str(each.get("name")) for each in resources_of(api_key, version, sample)}
    assert texts(layout.fields, sample, version) <= named


def principals(fields: tuple[Field, ...], struct: Any, version: int, path: str = "") -> set[str]:
    """The names of principals in a request: users and owners, not the kinds of principals ("User")."""
    found: set[str] = set()
    for field in fields:
        value = getattr(struct, field.attribute) if version in field.versions else None
        below = f"{path}.{field.name}"
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            if field.is_struct:
                found |= principals(field.fields, each, version, below)
            elif field.type == "string" and re.search(PRINCIPALS, below) and not below.endswith("Type"):
                found.add(each)
    return found


PRINCIPALS = r"Principal|Owner|Renewer|Upsertions\.Name|Deletions\.Name|Users\.Name|Entity\.EntityName"
WITH_PRINCIPALS = {29, 30, 31, 38, 41, 49, 50, 51}  # ACLs, tokens, quotas, SCRAM


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_principal_is_named(api_key: int, version: int) -> None:
    sample = sample_request(api_key, version)
    layout = newest_layout(f"{facts().apis[api_key].name}Request", version)
    found = principals(layout.fields, sample, version)
    shown = {str(value) for each in resources_of(api_key, version, sample) for value in each.values()}
    assert found <= shown
    assert bool(found) == (api_key in WITH_PRINCIPALS)


def test_settings_are_named_and_their_values_are_not() -> None:
    config = part("IncrementalAlterConfigsRequest", "AlterableConfig", name="retention.ms", value="canary-secret")
    resource = part(
        "IncrementalAlterConfigsRequest", "AlterConfigsResource", resource_type=2, resource_name="t", configs=[config]
    )
    found = resources_of(44, 1, make("IncrementalAlterConfigsRequest", resources=[resource]))
    assert found == [{"type": "topic", "name": "t", "settings": ("retention.ms",)}]


def test_acls_with_whom_they_allow_what() -> None:
    creation = part(
        "CreateAclsRequest",
        "AclCreation",
        resource_type=3,
        resource_name="g",
        principal="User:ann",
        host="*",
        operation=3,
        permission_type=3,
    )
    assert resources_of(30, 3, make("CreateAclsRequest", creations=[creation])) == [
        {
            "type": "group",
            "name": "g",
            "pattern": "LITERAL",
            "principal": "User:ann",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]
    creation.resource_pattern_type, creation.operation, creation.permission_type = 4, 99, 2
    (found,) = resources_of(30, 3, make("CreateAclsRequest", creations=[creation]))
    assert (found["pattern"], found["operation"], found["permission"]) == ("PREFIXED", "99", "DENY")
    (found,) = resources_of(30, 0, make("CreateAclsRequest", creations=[creation]))
    asked = make(
        "DescribeAclsRequest", resource_type_filter=2, resource_name_filter="t", pattern_type_filter=2, operation=1
    )
    (found,) = resources_of(29, 3, asked)
    assert (found["type"], found["name"], found["pattern"], found["operation"]) == ("topic", "t", "MATCH", "ANY")


def test_quotas_with_whom_they_are_for_and_without_their_values() -> None:
    """As kafka-configs.sh calls it: --entity-type users --entity-name ann --entity-type clients --entity-default."""
    entity = [
        part("AlterClientQuotasRequest", "EntityData", entity_type="user", entity_name="ann"),
        part("AlterClientQuotasRequest", "EntityData", entity_type="client-id", entity_name=None),
    ]
    ops = [part("AlterClientQuotasRequest", "OpData", key="producer_byte_rate", value=1234.5)]
    entry = part("AlterClientQuotasRequest", "EntryData", entity=entity, ops=ops)
    whole, settings = ("user=ann", "client-id=<default>"), ("producer_byte_rate",)
    found = resources_of(49, 1, make("AlterClientQuotasRequest", entries=[entry]))
    assert found == [
        {"type": "quota", "entity": "user", "name": "ann", "quotaOf": whole, "settings": settings},
        {"type": "quota", "entity": "client-id", "name": None, "quotaOf": whole, "settings": settings},
    ]
    component = part("DescribeClientQuotasRequest", "ComponentData", entity_type="ip", match_type=1, match=None)
    found = resources_of(48, 1, make("DescribeClientQuotasRequest", components=[component]))
    assert found == [{"type": "quota", "entity": "ip", "name": None, "match": "default"}]


def test_users_without_their_credentials() -> None:
    upsertion = part(
        "AlterUserScramCredentialsRequest",
        "ScramCredentialUpsertion",
        name="ann",
        salt=b"canary-secret",
        salted_password=b"canary-secret",
    )
    found = resources_of(51, 0, make("AlterUserScramCredentialsRequest", upsertions=[upsertion]))
    assert found == [{"type": "user", "name": "ann"}]


def test_there_is_a_bound() -> None:
    topics = [part("CreateTopicsRequest", "CreatableTopic", name=f"t{n}") for n in range(5_000)]
    found = resources_of(19, 7, make("CreateTopicsRequest", topics=[*topics, *topics]))
    assert len(found) == MOST_RESOURCES + 1


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_error_code_is_counted(api_key: int, version: int) -> None:
    """Those that error_response puts in, whose places Kafka's own classes confirm."""
    made = error_response(Request(connection(), api_key, version, 7, "c", sample_request(api_key, version)), 29)
    if made is None:
        return
    text = json.dumps(repr(made))
    expected = text.count("error_code=29")
    assert errors_of(api_key, version, made)["TOPIC_AUTHORIZATION_FAILED"] == expected


def test_requests_that_name_topics() -> None:
    named = {api_key: names_topics(api_key) for api_key in (0, 1, 3, 8, 11, 12, 18, 19, 33, 36, 68, 78, 9_999)}
    assert {api_key for api_key, has_topics in named.items() if has_topics} == {0, 1, 3, 8, 19, 33, 68, 78}

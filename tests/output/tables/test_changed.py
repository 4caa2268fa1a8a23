"""What administrators change, in words: requests are encoded by kafka-python, a real client."""

import warnings
from typing import Any

import pytest

from kproxy.protocol import message
from kproxy.session import Connection, Exchange, Frame
from tests.support.tables import rows_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its schemas in a way that Python deprecates
    from kafka.protocol import admin

SECRET = "of-alice"


def row(name: str, version: int, **fields: Any) -> dict[str, Any]:
    """The row of exchanges of a request."""
    data, layout = bytes(getattr(admin, name)[version](**fields).encode()), message(name)
    exchange = Exchange(Connection(1, "10.0.0.1:1000", "10.0.0.2:9092"), 0, layout.api_key, version)
    exchange.request = Frame(data, 0, 0, message=layout, body_version=version)
    [found] = rows_of(exchange, "exchanges")
    return found


def test_permissions() -> None:
    def acl(kind: int, resource: str, operation: int, permission: int, *, pattern: int = 3, host: str = "*") -> Any:
        named = {"resource_type": kind, "resource_name": resource, "resource_pattern_type": pattern}
        what = {"principal": "User:bob", "host": host, "operation": operation, "permission_type": permission}
        return admin.CreateAclsRequest.AclCreation(**named, **what)

    given = [acl(2, "orders", 3, 3), acl(3, "bill", 2, 2, pattern=4, host="10.0.0.7"), acl(4, "kafka-cluster", 9, 3)]
    assert row("CreateAclsRequest", 3, creations=given)["changed"] == [
        "User:bob: Read on topic orders",
        "User:bob: no all operations on group bill* from 10.0.0.7",
        "User:bob: ClusterAction on cluster",
    ]
    every = {f"{name}_filter": None for name in ("resource_name", "principal", "host")}
    filters = [admin.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=2, pattern_type_filter=3, operation=1, permission_type=1, **every
    )]  # fmt: skip
    assert row("DeleteAclsRequest", 3, filters=filters)["changed"] == ["anybody: any operation on topic"]


def test_users_and_quotas_without_their_secrets() -> None:
    users, quotas = admin.AlterUserScramCredentialsRequest, admin.AlterClientQuotasRequest.EntryData
    secret = {"salt": SECRET.encode(), "salted_password": SECRET.encode()}
    found = row(
        "AlterUserScramCredentialsRequest",
        0,
        deletions=[users.ScramCredentialDeletion(name="eve", mechanism=1)],
        upsertions=[users.ScramCredentialUpsertion(name="alice", mechanism=2, iterations=8192, **secret)],
    )
    assert found["changed"] == ["user eve: SCRAM-SHA-256 removed", "user alice: SCRAM-SHA-512 set"]
    assert SECRET not in repr(found)
    entries = [
        quotas(
            entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[quotas.OpData(key=key, value=value, remove=remove)],
        )
        for entity, key, value, remove in (
            ([("user", "bob"), ("client-id", None)], "consumer_byte_rate", 20000.0, False),
            ([("ip", "10.0.0.7")], "connection_creation_rate", 0.0, True),
        )
    ]
    assert row("AlterClientQuotasRequest", 1, entries=entries, validate_only=False)["changed"] == [
        "user bob, client-id (default): consumer_byte_rate 20000",
        "ip 10.0.0.7: connection_creation_rate removed",
    ]


@pytest.mark.parametrize("only_asks", [False, True])
def test_names_of_settings_without_their_values(only_asks: bool) -> None:
    resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    setting = resource.AlterableConfig(name="retention.ms", config_operation=0, value=SECRET)
    resources = [
        resource(resource_type=2, resource_name="orders", configs=[setting]),
        resource(resource_type=4, resource_name="", configs=[setting] * 200),
    ]
    found = row("IncrementalAlterConfigsRequest", 1, resources=resources, validate_only=only_asks)
    names = ", ".join(["retention.ms"] * 100)
    assert found["changed"] == ([] if only_asks else ["topic orders: retention.ms", f"broker (default): {names}"])
    assert SECRET not in repr(found)
    topic = admin.CreateTopicsRequest.CreatableTopic(
        name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    made = row("CreateTopicsRequest", 5, topics=[topic], timeout_ms=1, validate_only=only_asks)
    assert made["changed"] == ([] if only_asks else None)

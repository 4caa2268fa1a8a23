"""What an administrator's request changes, in words: the column ``changed`` of exchanges. No values of settings, no secrets.

Each function returns texts that name users, permissions, quotas or settings; topics and groups have columns of their own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

MOST = 100  # texts of a request
OPERATIONS = (  # of permissions, by AclOperation
    *("unknown", "any operation", "all operations", "Read", "Write", "Create", "Delete", "Alter"),
    *("Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens"),
    *("DescribeTokens", "TwoPhaseCommit"),
)
# by ResourceType
RESOURCES = ("unknown", "any resource", "topic", "group", "cluster", "transactional id", "delegation token", "user")
CONFIGURED = {2: "topic", 4: "broker", 8: "logger of broker", 16: "client metrics", 32: "group"}  # ConfigResource.Type
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}  # ScramMechanism
PREFIXED = 4  # PatternType
DENY = 2  # AclPermissionType


def changed(request: Any, name: str) -> list[str] | None:
    """Return what a request changes; none if it only asks whether it might; None for requests that READERS lacks."""
    if getattr(request, "validate_only", False):
        return []
    reader = READERS.get(name)
    return None if reader is None else [text for text, _ in zip(reader(request), range(MOST), strict=False)]


def _named(numbers: Iterable[str], number: int) -> str:
    return dict(enumerate(numbers)).get(number, f"number {number}")


def _permission(acl: Any, suffix: str = "") -> str:
    kind = _named(RESOURCES, getattr(acl, f"resource_type{suffix}"))
    resource, host = getattr(acl, f"resource_name{suffix}"), getattr(acl, f"host{suffix}")
    end = "*" if getattr(acl, "pattern_type_filter" if suffix else "resource_pattern_type") == PREFIXED else ""
    who = getattr(acl, f"principal{suffix}") or "anybody"
    operation = f"{'no ' if acl.permission_type == DENY else ''}{_named(OPERATIONS, acl.operation)}"
    what = kind if kind == "cluster" else f"{kind} {resource or ''}{end}".rstrip()
    return f"{who}: {operation} on {what}{'' if host in (None, '*') else f' from {host}'}"


def _created_acls(request: Any) -> Iterator[str]:
    return (_permission(acl) for acl in request.creations or ())


def _deleted_acls(request: Any) -> Iterator[str]:
    return (_permission(acl, "_filter") for acl in request.filters or ())


def _quotas(request: Any) -> Iterator[str]:
    for entry in request.entries or ():
        entity = ((each.entity_type, each.entity_name) for each in entry.entity or ())
        names = (f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
        ops = (f"{op.key} {'removed' if op.remove else f'{op.value:.15g}'}" for op in entry.ops or ())
        yield f"{', '.join(names)}: {', '.join(ops)}"


def _users(request: Any) -> Iterator[str]:
    for verb, users in (("removed", request.deletions), ("set", request.upsertions)):
        for each in users or ():
            yield f"user {each.name}: {MECHANISMS.get(each.mechanism, 'SCRAM')} {verb}"


def _settings(request: Any) -> Iterator[str]:
    for resource in request.resources or ():
        kind = CONFIGURED.get(resource.resource_type, "resource")
        names = ", ".join(each.name or "" for each in (resource.configs or ())[:MOST])
        yield f"{kind} {resource.resource_name or '(default)'}: {names}"


def _features(request: Any) -> Iterator[str]:
    return (f"{each.feature} {each.max_version_level}" for each in request.feature_updates or ())


READERS: dict[str, Callable[[Any], Iterator[str]] | None] = {
    "CreateTopicsRequest": None,
    "CreatePartitionsRequest": None,
    "CreateAclsRequest": _created_acls,
    "DeleteAclsRequest": _deleted_acls,
    "AlterConfigsRequest": _settings,
    "IncrementalAlterConfigsRequest": _settings,
    "AlterClientQuotasRequest": _quotas,
    "AlterUserScramCredentialsRequest": _users,
    "UpdateFeaturesRequest": _features,
}

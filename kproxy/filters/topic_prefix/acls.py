"""ACLs of a tenant: patterns of topics, groups and transactional ids, confined to its names (KIP-290).

    the tenant's pattern       the broker's
    LITERAL  name              LITERAL  prefix + name
    PREFIXED name              PREFIXED prefix + name
    LITERAL  *  (every name)   PREFIXED prefix

Filters are evaluated as ``ResourcePatternFilter.matches`` does it, on the tenant's patterns:

    DescribeAcls   the broker is asked for all names and pattern types; what it answers is translated, then filtered here
    DeleteAcls     one filter becomes several, each for one type of resource and one exact pattern, as a filter of MATCH type
                   would reach the cluster's own patterns; their results are put together again. A filter without a name
                   would delete the patterns of all tenants: it is refused

ACLs on the cluster, on users and tokens are the cluster's: they pass where ``cluster_administration`` is allowed.
Version 0 has no pattern types, and is not accepted; Kafka 2.0 and all later clients have version 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode

ANY_TYPE, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 1, 2, 3, 4, 5, 6, 7  # ResourceType
NAMED = (TOPIC, GROUP, TRANSACTIONAL_ID)  # whose resources are tenants'
OF_CLUSTER = (CLUSTER, DELEGATION_TOKEN, USER)
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4  # PatternType
EVERY = "*"
ACLS = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
OLDEST = 1  # the oldest version of these APIs that is accepted: version 0 has no pattern types
MOST_FILTERS = 10_000  # that one DeleteAcls request may become
NO_NAME = "a tenant deletes ACLs by the names of resources"


@dataclass(frozen=True, slots=True)
class PatternFilter:
    """The pattern that a filter of ACLs looks for."""

    resource_type: int
    name: str | None
    pattern_type: int

    def matches(self, resource_type: int, name: str, pattern_type: int) -> bool:
        """Return whether a pattern fits (ResourcePatternFilter.matches)."""
        if self.resource_type not in (ANY_TYPE, resource_type):
            return False
        if self.pattern_type not in (ANY, MATCH, pattern_type):
            return False
        if self.name is None or self.pattern_type != MATCH:
            return self.name is None or self.name == name
        if pattern_type == LITERAL:
            return name in (self.name, EVERY)
        return self.name.startswith(name)


Group = tuple[int, Refusal | None]  # of one filter: how many filters it became, or why it was refused


def to_broker(names: Names, name: str, pattern_type: int) -> tuple[str, int]:
    """Return the broker's pattern of a tenant's. An empty name stays, as Kafka refuses it."""
    if not name:
        return name, pattern_type
    if (name, pattern_type) == (EVERY, LITERAL):
        return names.prefix, PREFIXED
    return names.prefix + name, pattern_type


def to_client(names: Names, name: str, pattern_type: int) -> tuple[str, int] | None:
    """Return the tenant's pattern of a broker's; None: it is not the tenant's."""
    if not names.is_ours(name):
        return None
    rest = name.removeprefix(names.prefix)
    if not rest:
        return (EVERY, LITERAL) if pattern_type == PREFIXED else None
    return rest, pattern_type


def create_request(names: Names, message: Any, *, cluster: bool) -> None:
    """Translate the patterns of CreateAcls. Raises Refusal for one of the cluster, unless *cluster* allows it."""
    for creation in message.creations:
        if creation.resource_type in NAMED:
            creation.resource_name, creation.resource_pattern_type = to_broker(
                names, creation.resource_name, creation.resource_pattern_type
            )
        elif not cluster:
            raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a tenant makes ACLs on its own resources only")


def describe_request(message: Any) -> PatternFilter:
    """Let DescribeAcls ask for all names; return what the client asked for."""
    wanted = PatternFilter(message.resource_type_filter, message.resource_name_filter, message.pattern_type_filter)
    message.resource_name_filter, message.pattern_type_filter = None, ANY
    return wanted


def describe_response(names: Names, message: Any, wanted: PatternFilter, *, cluster: bool) -> None:
    """Keep what the client asked for among the tenant's patterns, and among the cluster's if *cluster* allows it."""
    message.resources = [each for each in message.resources if _translate(names, each, cluster) and _fits(wanted, each)]


def delete_request(names: Names, message: Any, *, cluster: bool) -> list[Group]:
    """Confine the filters of DeleteAcls to the tenant; return for each how many it became, or why it was refused."""
    groups: list[Group] = []
    confined: list[Any] = []
    for each in message.filters:
        try:
            made = [_with(each, *pattern) for pattern in _patterns(names, each, cluster)]
            if len(confined) + len(made) > MOST_FILTERS:
                raise Refusal(ErrorCode.INVALID_REQUEST, "too many filters")
            confined += made
            groups.append((len(made), None))
        except Refusal as refusal:
            groups.append((0, refusal))
    message.filters = confined
    return groups


def delete_response(names: Names, message: Any, groups: list[Group], *, cluster: bool) -> None:
    """Combine the results of confined filters: one for each filter of the client."""
    results = iter(message.filter_results)
    result_type = message.struct_types["DeleteAclsFilterResult"]
    merged = []
    for count, refusal in groups:
        own = [result for result in (next(results, None) for _ in range(count)) if result is not None]
        first = next((each for each in own if each.error_code), own[0] if own else result_type())
        if refusal is not None:
            first.error_code, first.error_message = refusal.code, refusal.reason
        matching = [acl for result in own for acl in result.matching_acls]
        first.matching_acls = [acl for acl in matching if _translate(names, acl, cluster)]
        merged.append(first)
    message.filter_results = merged


def _patterns(names: Names, each: Any, cluster: bool) -> Iterator[tuple[int, str | None, int]]:
    """Yield the exact patterns that a tenant's filter may delete: type of resource, name, pattern type. Raises Refusal."""
    resource_type, name, pattern_type = each.resource_type_filter, each.resource_name_filter, each.pattern_type_filter
    if cluster:
        kinds = (
            OF_CLUSTER
            if resource_type == ANY_TYPE and name is not None
            else [kind for kind in OF_CLUSTER if kind == resource_type]
        )
        yield from ((kind, name, pattern_type) for kind in kinds)
    elif resource_type in OF_CLUSTER:
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a tenant deletes ACLs on its own resources only")
    if resource_type not in (ANY_TYPE, *NAMED, *OF_CLUSTER):
        yield resource_type, name, pattern_type  # no type of resource: Kafka refuses it
    if name is None and resource_type in (ANY_TYPE, *NAMED):
        raise Refusal(ErrorCode.INVALID_REQUEST, NO_NAME)
    for kind in NAMED:
        if resource_type in (ANY_TYPE, kind):
            yield from ((kind, *pattern) for pattern in _exact(names, name or "", pattern_type))


def _exact(names: Names, name: str, pattern_type: int) -> Iterator[tuple[str, int]]:
    if pattern_type != MATCH:
        wildcard = name == EVERY and pattern_type in (ANY, LITERAL)
        yield (names.prefix, PREFIXED) if wildcard else (names.prefix + name, pattern_type)
        return
    yield names.prefix + name, LITERAL
    yield from ((names.prefix + name[:size], PREFIXED) for size in range(len(name) + 1))


def _with(each: Any, resource_type: int, name: str | None, pattern_type: int) -> Any:
    """Return a copy of a filter for one pattern."""
    values = {field.attribute: getattr(each, field.attribute) for field in each.fields}
    values |= {
        "resource_type_filter": resource_type,
        "resource_name_filter": name,
        "pattern_type_filter": pattern_type,
        "unknown_tags": each.unknown_tags,
    }
    return type(each)(**values)


def _translate(names: Names, pattern: Any, cluster: bool) -> bool:
    """Give a pattern its name for clients; return False if the tenant must not see it."""
    if pattern.resource_type not in NAMED:
        return cluster
    own = to_client(names, pattern.resource_name, pattern.pattern_type)
    if own is None:
        return False
    pattern.resource_name, pattern.pattern_type = own
    return True


def _fits(wanted: PatternFilter, pattern: Any) -> bool:
    return wanted.matches(pattern.resource_type, pattern.resource_name, pattern.pattern_type)

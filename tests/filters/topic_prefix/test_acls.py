"""ACL patterns of a tenant.

ResourceType: 1 any, 2 topic, 3 group, 4 cluster. PatternType: 1 any, 2 match, 3 literal, 4 prefixed.
"""

from typing import Any

import pytest

from kproxy.filters.topic_prefix import acls
from kproxy.filters.topic_prefix.acls import PatternFilter
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.protocol.error_codes import ErrorCode
from tests.support.messages import make

NAMES = Names("a.")


@pytest.mark.parametrize(
    ("own", "brokers"),
    [
        (("x", 3), ("a.x", 3)),
        (("x", 4), ("a.x", 4)),
        (("*", 3), ("a.", 4)),
        (("*", 4), ("a.*", 4)),
        (("?", 3), ("a.?", 3)),
    ],
)
def test_patterns_go_and_come_back(own: tuple[str, int], brokers: tuple[str, int]) -> None:
    assert acls.to_broker(NAMES, *own) == brokers
    assert acls.to_client(NAMES, *brokers) == own


def test_patterns_of_others_are_not_the_tenants() -> None:
    for name, kind in (("*", 3), ("a", 4), ("b.x", 3), ("a.", 3)):
        assert acls.to_client(NAMES, name, kind) is None
    assert acls.to_broker(NAMES, "", 3) == ("", 3)  # which Kafka refuses


# org.apache.kafka.common.resource.ResourcePatternFilterTest has these
@pytest.mark.parametrize(
    ("wanted", "pattern", "fits"),
    [
        (PatternFilter(1, None, 1), (3, "x", 4), True),
        (PatternFilter(2, None, 1), (3, "x", 4), False),
        (PatternFilter(2, "x", 1), (2, "x", 4), True),
        (PatternFilter(2, "x", 3), (2, "x", 4), False),
        (PatternFilter(2, "xy", 2), (2, "x", 4), True),
        (PatternFilter(2, "xy", 2), (2, "x", 3), False),
        (PatternFilter(2, "xy", 2), (2, "*", 3), True),
        (PatternFilter(2, "xy", 3), (2, "*", 3), False),
        (PatternFilter(2, "x", 2), (2, "xy", 4), False),
        (PatternFilter(2, None, 4), (2, "x", 3), False),
    ],
)
def test_filters_fit_as_kafkas_do(wanted: PatternFilter, pattern: tuple[int, str, int], fits: bool) -> None:
    assert wanted.matches(*pattern) == fits


def confined(kind: int, name: str | None, pattern: int, *, cluster: bool = True) -> tuple[list[Any], list[acls.Group]]:
    each = {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": "User:p",
    }
    message = make("DeleteAclsRequest", filters=[each])
    groups = acls.delete_request(NAMES, message, cluster=cluster)
    assert {found.principal_filter for found in message.filters} <= {"User:p"}
    found = [(f.resource_type_filter, f.resource_name_filter, f.pattern_type_filter) for f in message.filters]
    return found, groups


def test_a_deletion_reaches_exact_patterns_of_the_tenant_only() -> None:
    assert confined(2, "x", 3) == ([(2, "a.x", 3)], [(1, None)])
    assert confined(2, "x", 1) == ([(2, "a.x", 1)], [(1, None)])
    assert confined(2, "*", 3) == ([(2, "a.", 4)], [(1, None)])
    assert confined(3, "xy", 2)[0] == [(3, "a.xy", 3), (3, "a.", 4), (3, "a.x", 4), (3, "a.xy", 4)]
    assert confined(1, "x", 4, cluster=False)[0] == [(kind, "a.x", 4) for kind in (2, 3, 5)]
    assert confined(1, "x", 4)[0] == [(kind, "x", 4) for kind in (4, 6, 7)] + [(kind, "a.x", 4) for kind in (2, 3, 5)]
    assert confined(4, "kafka-cluster", 3)[0] == [(4, "kafka-cluster", 3)]
    assert confined(4, None, 3)[0] == [(4, None, 3)]
    assert confined(0, None, 3)[0] == [(0, None, 3)]  # an unknown type, which Kafka refuses


def test_a_deletion_without_a_name_or_of_the_clusters_is_refused() -> None:
    for kind, name, cluster, code in (
        (2, None, True, ErrorCode.INVALID_REQUEST),
        (1, None, True, ErrorCode.INVALID_REQUEST),
        (4, "kafka-cluster", False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ):
        filters, ((count, refusal),) = confined(kind, name, 3, cluster=cluster)
        assert (filters, count) == ([], 0)
        assert refusal is not None
        assert refusal.code == code


def test_results_are_put_together_again() -> None:
    def result(*names: str, code: int = 0) -> Any:
        matching = [{"resource_type": 2, "resource_name": name, "pattern_type": 3} for name in names]
        return {"error_code": code, "matching_acls": matching}

    message = make("DeleteAclsResponse", filter_results=[result("a.x"), result("a.y", "b.z"), result(code=42)])
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "no name")
    acls.delete_response(NAMES, message, [(2, None), (0, refusal), (1, None)], cluster=True)
    shown = [(each.error_code, [acl.resource_name for acl in each.matching_acls]) for each in message.filter_results]
    assert shown == [(0, ["x", "y"]), (42, []), (42, [])]


def test_a_description_asks_for_all_and_shows_what_was_asked_for() -> None:
    request = make("DescribeAclsRequest", resource_type_filter=1, resource_name_filter="x", pattern_type_filter=2)
    wanted = acls.describe_request(request)
    assert (wanted, request.resource_name_filter, request.pattern_type_filter) == (PatternFilter(1, "x", 2), None, 1)
    found = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern}
        for kind, name, pattern in ((2, "a.x", 3), (2, "b.x", 3), (2, "*", 3), (2, "a.", 4), (4, "x", 3), (3, "a.y", 3))
    ]
    for cluster, kept in ((True, [(2, "x", 3), (2, "*", 3), (4, "x", 3)]), (False, [(2, "x", 3), (2, "*", 3)])):
        message = make("DescribeAclsResponse", resources=found)
        acls.describe_response(NAMES, message, wanted, cluster=cluster)
        assert [(each.resource_type, each.resource_name, each.pattern_type) for each in message.resources] == kept


def test_creations_on_the_cluster_can_be_refused() -> None:
    message = make("CreateAclsRequest", creations=[{"resource_type": 4, "resource_name": "kafka-cluster"}])
    acls.create_request(NAMES, message, cluster=True)
    assert message.creations[0].resource_name == "kafka-cluster"
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        acls.create_request(NAMES, message, cluster=False)

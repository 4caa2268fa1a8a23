"""What ApiVersions offers to a tenant."""

from kproxy.filters.topic_prefix import offered
from kproxy.protocol import ApiKey
from tests.support.filtering import make, part


def versions(*ranges: tuple[int, int, int]) -> list[object]:
    return [
        part("ApiVersionsResponse", "ApiVersion", api_key=key, min_version=low, max_version=high)
        for key, low, high in ranges
    ]


def test_what_is_refused_is_not_offered() -> None:
    message = make(
        "ApiVersionsResponse", api_keys=versions((0, 3, 13), (27, 0, 1), (30, 0, 3), (58, 0, 0), (999, 0, 0))
    )
    assert offered.narrow(message, cluster=True)
    assert [(each.api_key, each.min_version, each.max_version) for each in message.api_keys] == [(0, 3, 13), (30, 1, 3)]
    assert not offered.narrow(message, cluster=True)


def test_administration_of_the_cluster_can_be_refused() -> None:
    message = make("ApiVersionsResponse", api_keys=versions((49, 0, 1), (60, 0, 2)))
    assert not offered.narrow(message, cluster=True)
    assert offered.narrow(message, cluster=False)
    assert [each.api_key for each in message.api_keys] == [60]


def test_acls_without_pattern_types_are_refused() -> None:
    assert not offered.is_offered(ApiKey.CREATE_ACLS, 0, cluster=True)
    assert offered.is_offered(ApiKey.CREATE_ACLS, 1, cluster=True)

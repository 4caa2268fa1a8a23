"""Prefixes of tenants that share brokers."""

import msgspec
import pytest

from kproxy.config.structs import Config
from kproxy.config.tenant_checks import check_tenants


def complaints(*tenants: tuple[str, str]) -> list[tuple[str, str]]:
    clusters = [
        {
            "name": f"c{number}",
            "listen": f":{number + 1}",
            "bootstrap": ["x:1", bootstrap],
            "filters": [{"use": "audit"}, {"use": "topic_prefix", "with": {"prefix": prefix}}],
        }
        if bootstrap
        else {"name": f"c{number}", "listen": f":{number + 1}", "bootstrap": ["other:1"]}
        for number, (prefix, bootstrap) in enumerate(tenants)
    ]
    return list(check_tenants(msgspec.convert({"clusters": clusters}, Config)))


@pytest.mark.parametrize(("one", "other"), [("a.", "a.b."), ("team", "te"), ("a.", "a_"), ("a.", "a_b")])
def test_a_prefix_that_begins_another_is_reported_at_the_second(one: str, other: str) -> None:
    ((path, said),) = complaints((one, "b:1"), (other, "b:1"))
    assert path == "clusters[1].filters[1].with.prefix"
    assert said.startswith(
        f'"{other}" and "{one}", at clusters[0].filters[1].with.prefix, are in front of the same brokers'
    )


@pytest.mark.parametrize(("one", "other"), [("a.", "b."), ("a.", "a."), ("team-a.", "team-b."), ("ab", "ac")])
def test_other_prefixes_are_not(one: str, other: str) -> None:
    assert complaints((one, "b:1"), (other, "b:1"), ("", "")) == []

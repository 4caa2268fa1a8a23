"""OtlpEndpoint: what is a URL of a collector and what a header, and that no message has a secret in it."""

import pytest

from kproxy.filters.otlp_endpoint import OtlpEndpoint, Target, endpoint_problems, target_of


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://collector:4318", Target(False, "collector", 4318, "")),
        ("https://otlp.example.com:443/otlp/", Target(True, "otlp.example.com", 443, "/otlp")),
        ("http://[::1]:4318/", Target(False, "::1", 4318, "")),
        ("https://10.0.0.1:1/a/b", Target(True, "10.0.0.1", 1, "/a/b")),
    ],
)
def test_urls(url: str, target: Target) -> None:
    endpoint = OtlpEndpoint(otlp=url)
    assert target_of(endpoint) == target
    assert list(endpoint_problems(endpoint)) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("collector:4318", "not the URL of a collector"),
        ("grpc://collector:4317", "not the URL of a collector"),
        ("http://collector", 'write "http://collector:4318"'),
        ("http://collector:0", "4317 for grpc"),
        ("http://collector:70000", "4317 for grpc"),
        ("http://c4nary:c4nary@collector:4318", "headers (authorization)"),
        ("http://collector:4318/?token=c4nary", "leave out what begins with ? or #"),
        ("http://collector:4318/c4nary #", "leave out what begins with ? or #"),
        ("http://col lector:4318", "not http(s)://host:port"),
        ("http://collector:4318/\r\nX-Other: c4nary", "not http(s)://host:port"),
        ("http://collector:٤٣١٨", "not http(s)://host:port"),
    ],
)
def test_what_is_no_url_is_said_without_repeating_it(url: str, words: str) -> None:
    [(path, message)] = endpoint_problems(OtlpEndpoint(otlp=url))
    assert path == "otlp"
    assert words in message
    assert "c4nary" not in message


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"protocol": "grpc", "otlp": "http://c:4317/path"}, "otlp", "grpc has no path"),
        ({"protocol": "grpc", "headers": {"grpc-timeout": "1"}}, "headers.grpc-timeout", "gRPC's own"),
        ({"headers": {"a b": "c4nary"}}, "headers", '"a b" is not the name of a header'),
        ({"headers": {"Host": "c4nary"}}, "headers.Host", "sets this header itself"),
        ({"headers": {"authorization": "c4nary\r\nx: y"}}, "headers.authorization", "printable ASCII"),
        ({"headers": {"x": "c4nary" * 2_000}}, "headers.x", "8,000"),
        ({"headers": {f"x-{number}": "" for number in range(51)}}, "headers", "at most 50"),
        ({"ca": "ca.pem"}, "ca", "no effect with http://"),
    ],
)
def test_contradictions(settings: dict[str, object], path: str, words: str) -> None:
    endpoint = OtlpEndpoint(**{"otlp": "http://c:4318", **settings})  # type: ignore[arg-type]
    [(found, message)] = endpoint_problems(endpoint)
    assert found == path
    assert words in message
    assert "c4nary" not in message

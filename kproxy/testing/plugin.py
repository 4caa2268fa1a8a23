"""The plugin of pytest: the fixture kproxy_proxy, which makes proxies that end with the test."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kproxy.testing.proxy import Proxy


@pytest.fixture
def kproxy_proxy() -> "Iterator[Callable[..., Proxy]]":
    """Return a function that starts a proxy in front of a Kafka cluster: kproxy_proxy("localhost:9092"), see kproxy.testing."""
    from kproxy.testing.proxy import Proxy  # noqa: PLC0415 - only tests that use it pay for it

    with contextlib.ExitStack() as proxies:

        def start(bootstrap: str | list[str], **cluster: Any) -> Proxy:
            return proxies.enter_context(Proxy(bootstrap, **cluster))

        yield start

"""Filters that go wrong, wherever they are asked or at one API, for the tests beside."""

import asyncio
from typing import Any

from kproxy.filters.addresses import responses_with_addresses
from kproxy.filters.contract import ConnectionFacts, Direction, Filter, Forward, Replace, RequestFacts, Want
from kproxy.protocol.facts import facts

EVERY = frozenset(facts().apis)
TOO_LARGE = bytes(9 << 20)  # more than limits.frame_size of the test


def _wrong(fault: str, held: Any) -> Any:
    """Go wrong with a Request or a Response."""
    if fault == "raises":
        raise RuntimeError("canary: of a user's filter")
    if fault == "hangs":
        return asyncio.Event().wait()
    if fault == "another correlation id":
        about = getattr(held, "request", held)
        about.correlation_id += 1_000
        about.api_key, about.api_version = 18, 0
        return Replace(held.message)
    if fault == "grows past the cap":
        held.message.unknown_tags = ((9_999, TOO_LARGE),)
        return Replace(held.message)
    return fault  # no verdict


class Observer(Filter):
    """Wants all there is, in both directions, and goes wrong each time."""

    fails_open = True
    timeout = 0.02

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.requests = self.responses = EVERY

    def on_request(self, request: Any) -> Any:
        """Go wrong."""
        return _wrong(self.fault, request)

    def on_response(self, response: Any) -> Any:
        """Go wrong."""
        return _wrong(self.fault, response)


class ObserverOfParts(Observer):
    """Wants the parts of responses that have addresses, and goes wrong each time."""

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HEAD and TAIL, where there is one."""
        if direction == Direction.REQUEST:
            return Want.PASS
        return responses_with_addresses().get((api_key, api_version), Want.PASS)

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes:
        """Go wrong."""
        raise RuntimeError("canary")

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Go wrong."""
        return tail + tail


class Policy(Filter):
    """Goes wrong at the API that the client id names, "request Produce raises": a client for each case."""

    timeout = 0.2

    def __init__(self) -> None:
        self.requests = self.responses = EVERY

    def on_request(self, request: Any) -> Any:
        """Go wrong, or not."""
        request.connection.state["failing"] = request.client_id
        return self._asked("request", request, request.api_key, request.client_id)

    def on_response(self, response: Any) -> Any:
        """Go wrong, or not."""
        client_id = response.connection.state.get("failing")
        return self._asked("response", response, response.request.api_key, client_id)

    def _asked(self, direction: str, held: Any, api_key: int, client_id: str | None) -> Any:
        where, api, fault = [*(client_id or "").split(" ", 2), "", "", ""][:3]
        is_meant = where == direction and api == facts().apis[api_key].name
        return _wrong(fault, held) if is_meant else Forward()

"""Filters as no one should write them, for test_hostile.py; and one as it should be."""

import asyncio
from typing import Any

from kproxy.filters.contract import Filter, Forward, Replace, Reply, Request, Response, Verdict

HEARTBEAT = 12


class Faulty(Filter):
    """Goes wrong on every Heartbeat, in the way it is told."""

    requests = (HEARTBEAT,)
    responses = (HEARTBEAT,)
    timeout = 0.5

    def __init__(self, fault: str, fails_open: bool = False) -> None:
        self.fault = fault
        self.fails_open = fails_open

    def on_request(self, request: Request) -> Any:
        """Go wrong."""
        if self.fault == "raises":
            raise RuntimeError("as told")
        if self.fault == "hangs":
            return asyncio.Event().wait()
        if self.fault == "answers with no verdict":
            return 7
        if self.fault == "grows past the cap":
            request.message.group_id = "g" * 40_000  # more than a string of this version holds
            return Replace(request.message)
        return Forward()

    def on_response(self, response: Response) -> Verdict:
        """A reply to a response is no verdict."""
        return Reply(response.message) if self.fault == "replies to a response" else Forward()

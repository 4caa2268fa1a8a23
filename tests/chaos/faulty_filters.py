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


class Telling(Filter):
    """Fails on what is confidential, with an exception that repeats it, as a look-up in a dict does."""

    requests = (0, 19, 33, 36, 38, 39, 40, 44, 51, 58)
    responses = (1, 32, 36, 38, 41, 58)
    fails_open = True

    def on_request(self, request: Request) -> Verdict:
        """Fail."""
        raise KeyError(vars_of(request.message))

    def on_response(self, response: Response) -> Verdict:
        """Fail."""
        raise KeyError(vars_of(response.message))


def vars_of(struct: Any) -> str:
    """All values of a message and of the structs in it."""
    if isinstance(struct, list):
        return repr([vars_of(each) for each in struct])
    fields = getattr(struct, "fields", None)
    return repr(struct) if fields is None else repr({f.name: vars_of(getattr(struct, f.attribute)) for f in fields})

"""A policy that fails at every request to create topics."""

from kproxy.filters.contract import Filter, Request, Verdict


class Raising(Filter):
    """Raises."""

    requests = (19,)

    def on_request(self, request: Request) -> Verdict:
        raise ZeroDivisionError("of a user's filter")

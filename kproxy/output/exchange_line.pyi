"""One exchange as a line of the decoded log."""

from kproxy.output.bodies import Bodies
from kproxy.session import Exchange

def exchange_line(exchange: Exchange, bodies: Bodies | None = None) -> bytes: ...
def has_errors(response: bytes | None) -> bool: ...

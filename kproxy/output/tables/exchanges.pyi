"""Rows of the table exchanges; the contract says what the columns are."""

from typing import Any

from kproxy.output.tables.bodies import Body
from kproxy.output.tables.gather import Found
from kproxy.session import Exchange

# column, where it may be in the request, and where in the response if the request does not say
TOP_FIELDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]

def exchange_row(
    number: int, exchange: Exchange, found: Found, top: list[Any], undecoded: str | None
) -> tuple[Any, ...]:
    """The columns of exchanges up to throttle_time_ms, without connection_id.

    Args:
        number: of the exchange in its connection.
        found: what is in both bodies.
        top: what top_fields gave.
        undecoded: why a body could not be read, where the exchange itself does not say.
    """

def gather_bodies(exchange: Exchange, request: Body | None, response: Body | None) -> Found:
    """What both bodies of an exchange hold, as far as the table tells it."""

def top_fields(request: Body | None, response: Body | None) -> list[Any]:
    """The values of TOP_FIELDS."""

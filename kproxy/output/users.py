"""Who logs in: the user name in a client's SASL token."""

from typing import Any

from kproxy.errors import DecodeError
from kproxy.output.bodies import Bodies
from kproxy.protocol.embedded.sasl import open_token
from kproxy.session import Exchange, Frame


def user_of(exchange: Exchange, request: Any, bodies: Bodies | None) -> str | None:
    """Return the user name in a client's SASL token, if the mechanism sends it in the clear. A decoded log has it in *bodies*."""
    if type(exchange.request) is not Frame:
        return _shown_user(bodies)
    try:
        name = open_token(request.auth_bytes or b"", exchange.connection.sasl_mechanism, from_client=True).get(
            "username"
        )
    except DecodeError:
        return None
    return name if isinstance(name, str) and name else None


def _shown_user(bodies: Bodies | None) -> str | None:
    for one in bodies.embedded if bodies is not None else ():
        if one.kind == "sasl-token" and one.where == "request" and isinstance(one.json, dict):
            name = one.json.get("username")
            return name if isinstance(name, str) and name else None
    return None

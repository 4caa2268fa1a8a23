"""Fields of conditions that the decoded log lacks: the topics and groups that an exchange names, and the client's principal.

They equal columns of the tables: ``topics`` and ``groups`` of exchanges, ``user_name`` and ``tls_client_certificate`` of
connections (kproxy.output.tables.contracts); the principal is known from the login on, and null before.
"""

from typing import Any

from kproxy.output.bodies import Bodies, user_of
from kproxy.output.escaping import well_formed
from kproxy.output.tables.body import groups_of, read_body, topics_of
from kproxy.protocol import ApiKey
from kproxy.session import Exchange

MOST_LOGINS = 100_000  # connections whose users are remembered; the oldest are forgotten


class Entities:
    """Looks up topics, groups and principals. Call it for every exchange in order: it remembers who has logged in."""

    def __init__(self) -> None:
        self._users: dict[int, str] = {}  # number of the connection -> who logged in

    def of(self, exchange: Exchange, bodies: Bodies | None = None) -> dict[str, Any]:
        """Return topics, groups and principal. *bodies* are needed for a decoded log, whose frames have no SASL tokens."""
        request, _ = read_body(exchange.request)
        response, _ = read_body(exchange.response)
        return {
            "topics": [well_formed(topic) for topic in topics_of(request, response, exchange.topic_names)],
            "groups": [well_formed(group) for group in groups_of(request)],
            "principal": self.principal(exchange, None if request is None else request.struct, bodies),
        }

    def principal(self, exchange: Exchange, request: Any, bodies: Bodies | None = None) -> str | None:
        """Return the SASL user, else the subject of the client's TLS certificate. *request*: the decoded body of the request."""
        connection = exchange.connection
        user = self._users.get(connection.number)
        if user is None and exchange.api_key == ApiKey.SASL_AUTHENTICATE and request is not None:
            user = user_of(exchange, request, bodies)
            if user is not None:
                self._users[connection.number] = user
                if len(self._users) > MOST_LOGINS:
                    del self._users[next(iter(self._users))]
        if user is None and connection.tls is not None:
            user = connection.tls.client_certificate
        return None if user is None else well_formed(user)

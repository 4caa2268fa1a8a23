"""Learn from exchanges about their connection and cluster: client software, user, topic names, brokers, fetch sessions."""

from contextlib import suppress

from kproxy.errors import DecodeError
from kproxy.session.cluster import ClusterView, TopicNames
from kproxy.session.events import Connection
from kproxy.session.exchanges import Exchange, Frame, Route, Step, decoded
from kproxy.session.fetch_session import FetchSessions
from kproxy.session.recognise import SOFTWARE_FROM, client_software

_FOLLOW_SASL, _FOLLOW_FETCH_SESSION = int(Step.FOLLOW_SASL), int(Step.FOLLOW_FETCH_SESSION)
_LONGEST_NAME = 255  # characters kept of a software's name; Kafka's pattern for it has no limit


class Learning:
    """Stores what one connection reveals in its Connection, its exchanges and the shared ClusterView."""

    __slots__ = ("_cluster", "_connection", "_fetch_partitions", "_fetch_sessions")

    def __init__(self, connection: Connection, cluster: ClusterView, fetch_partitions: int) -> None:
        self._connection = connection
        self._cluster = cluster
        self._fetch_partitions = fetch_partitions
        self._fetch_sessions: FetchSessions | None = None  # made for the first Fetch: few connections have any

    def from_api_versions(self, route: Route, request: Frame) -> bool:
        """Learn the client's software from a request, also one newer than the facts; return whether it names one."""
        if route.api_version < SOFTWARE_FROM:
            return False
        if request.message is None or request.cut:
            named = client_software(request.data, request.body_start)
        else:
            body = decoded(request)
            named = body.client_software_name[:_LONGEST_NAME], body.client_software_version[:_LONGEST_NAME]
        if named is not None:
            self._connection.client_software_name, self._connection.client_software_version = named
        return named is not None

    def from_handshake(self, request: Frame) -> None:
        """Learn the SASL mechanism from a decodable SaslHandshake."""
        self._connection.sasl_mechanism = decoded(request).mechanism[:_LONGEST_NAME]

    def _from_login(self, request: Frame) -> None:
        """Learn the user's name from SaslAuthenticate."""
        if self._connection.user_name is not None or request.message is None or request.cut:
            return
        from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415 (as in sasl.py)

        with suppress(DecodeError):
            token = decoded(request).auth_bytes or b""
            self._connection.user_name = (
                open_token(token, self._connection.sasl_mechanism, from_client=True).get("username") or None
            )

    def name_topics(self, route: Route, exchange: Exchange) -> None:
        """Give the exchange a mapping from its topic ids to names, which are looked up when read."""
        if route.has_topic_ids:
            exchange.topic_names = TopicNames(self._cluster, exchange.request, exchange.response)

    def from_exchange(self, route: Route, exchange: Exchange) -> None:
        if route.request_has_names and exchange.request is not None:
            self._cluster.note(exchange.request)
        if route.response_has_names and exchange.response is not None:
            self._cluster.note(exchange.response)
        self.name_topics(route, exchange)
        if route.response_step == _FOLLOW_SASL and exchange.request is not None:
            self._from_login(exchange.request)
        if route.response_step == _FOLLOW_FETCH_SESSION and exchange.request is not None:
            if self._fetch_sessions is None:
                self._fetch_sessions = FetchSessions(self._fetch_partitions)
            exchange.fetch_number = self._fetch_sessions.note(exchange.request, exchange.response)
            exchange.fetch_sessions = self._fetch_sessions if exchange.fetch_number else None

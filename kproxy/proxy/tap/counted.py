"""What is counted: Total, CloseCause, Phase; by API: kproxy/output/api_counts.py.

Their numbers are indexes in the counters' memory; C reads them at import.

Add new members at the end. A total also needs its Description in kproxy/output/metric_descriptions.py.
"""

from enum import IntEnum, auto


class _FromZero(IntEnum):
    @staticmethod
    def _generate_next_value_(_name: str, _start: int, count: int, _last: list[int]) -> int:
        return count


class Total(_FromZero):
    """Totals of a worker. They only grow, except those in GAUGES."""

    CONNECTIONS_OPENED = auto()
    CONNECTIONS_OPEN = auto()
    IN_FLIGHT = auto()
    BYTES_REQUEST = auto()
    BYTES_RESPONSE = auto()
    TAP_DROPPED_CHUNKS = auto()
    TAP_DROPPED_BYTES = auto()
    MISPAIRED = auto()
    OPAQUE_CONNECTIONS = auto()
    UNKNOWN_APIS = auto()
    HELD_FRAMES = auto()
    REWRITTEN_FRAMES = auto()
    WITHHELD_ADDRESSES = auto()
    TLS_HANDSHAKES_OK_CLIENT = auto()
    TLS_HANDSHAKES_FAILED_CLIENT = auto()
    TLS_HANDSHAKES_OK_BROKER = auto()
    TLS_HANDSHAKES_FAILED_BROKER = auto()
    UPSTREAM_CONNECTS = auto()
    UPSTREAM_CONNECT_FAILURES = auto()
    REFUSED_CONNECTIONS = auto()
    ACCEPT_ERRORS = auto()
    BUFFERED_BYTES = auto()
    LOOP_LAG_MAX_NS = auto()
    TAPPED_CHUNKS = auto()
    TAPPED_BYTES = auto()
    LEFT_OUT_ANALYZER_BEHIND = auto()
    LEFT_OUT_ANALYZER_ABSENT = auto()
    LEFT_OUT_ANALYZER_RESTARTED = auto()
    LEFT_OUT_MEMORY_BUDGET = auto()
    LEFT_OUT_NOT_SELECTED = auto()
    LEFT_OUT_FAULT = auto()
    BODIES_LEFT_OUT = auto()
    READ_PAUSES_REQUEST = auto()
    READ_PAUSES_RESPONSE = auto()
    READ_PAUSED_NS_REQUEST = auto()
    READ_PAUSED_NS_RESPONSE = auto()
    READING_PAUSED_REQUEST = auto()
    READING_PAUSED_RESPONSE = auto()
    CLIENT_LOGINS_OK = auto()
    CLIENT_LOGINS_FAILED = auto()
    CLIENT_LOGINS_REPEATED = auto()
    BROKER_LOGINS_OK = auto()
    BROKER_LOGINS_FAILED = auto()


GAUGES = frozenset(
    {
        Total.CONNECTIONS_OPEN,
        Total.IN_FLIGHT,
        Total.BUFFERED_BYTES,
        Total.LOOP_LAG_MAX_NS,
        Total.READING_PAUSED_REQUEST,
        Total.READING_PAUSED_RESPONSE,
    }
)


class CloseCause(_FromZero):
    """Why a connection was closed: a label of the metric kproxy_connections_closed, and the byte of the tap's CLOSE records."""

    CLIENT_CLOSED = auto()
    BROKER_CLOSED = auto()
    CLIENT_RESET = auto()
    BROKER_RESET = auto()
    IDLE = auto()
    FIRST_REQUEST_TIMEOUT = auto()
    FRAME_TIMEOUT = auto()
    HALF_CLOSED_TIMEOUT = auto()
    BAD_FRAME = auto()
    NOT_KAFKA = auto()
    FRAME_TOO_BIG = auto()
    FILTER = auto()
    REFUSED_VERSION = auto()
    UPSTREAM_UNREACHABLE = auto()
    LIMIT = auto()
    TLS_CLIENT = auto()
    TLS_BROKER = auto()
    DRAIN = auto()
    LOOP = auto()
    ERROR = auto()
    PROXY_PROTOCOL = auto()
    WORKER_DIED = auto()
    MEMORY = auto()
    AUTHENTICATION_FAILED = auto()
    SESSION_EXPIRED = auto()
    BROKER_LOGIN = auto()


class Phase(_FromZero):
    """Parts of the time of an exchange, in their order: a label of the metric kproxy_phase_seconds."""

    REQUEST_IN_PROXY = auto()  # from the request's first byte received to its last byte sent to the broker
    BROKER = auto()  # from there to the response's first byte received
    RESPONSE_IN_PROXY = auto()  # from there to the response's last byte sent to the client

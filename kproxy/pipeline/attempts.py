"""What TCP said about a flow, and what becomes of an attempt to connect on which no byte was sent.

Without bytes nothing says that a connection was meant for Kafka, so only attempts at Kafka's usual ports are reported: the rest
of a capture (scans, other services) makes no events. Nothing is said of what need not be a fault: connections that the client
ended itself (health checks of load balancers and of Kubernetes), single SYNs (the capture may end there), flows without a SYN.
"""

from kproxy.capture import Flow
from kproxy.protocol import Direction
from kproxy.protocol.addresses import KAFKA_PORTS, split_address
from kproxy.session import TcpFacts
from kproxy.session.recognise import Foreign

SYNS = 2  # SYNs without an answer; one alone may be the last packet of a capture
SIDES = {Direction.REQUEST: "client", Direction.RESPONSE: "broker"}


def tcp_facts(flow: Flow) -> TcpFacts:
    """Return what the packets of a flow have shown so far."""
    facts = TcpFacts(flow.syn_at or None, flow.last_syn_at or None, flow.syns, flow.syn_ack_at or None)
    if flow.closed_by is not None:
        facts.closed_by, facts.closed_at = SIDES[flow.direction(flow.closed_by[0])], flow.closed_at
    return facts


def without_bytes(flow: Flow) -> Foreign | None:
    """Return why a flow has no bytes, if that is worth an event."""
    if not flow.syns or split_address(flow.server).port not in KAFKA_PORTS:
        return None
    facts = tcp_facts(flow)
    client_went_on, broker_went_on = (flow.half(direction).went_on for direction in Direction)
    by_broker = facts.closed_by == SIDES[Direction.RESPONSE]
    found = None
    if flow.syn_ack_at:
        if by_broker and client_went_on:
            found = Foreign(
                "dropped", Direction.RESPONSE, f"{flow.server} took the connection and ended it before a byte"
            )
    elif client_went_on or broker_went_on:
        pass  # packets are missing in the capture
    elif by_broker:
        found = Foreign("refused", Direction.RESPONSE, f"{flow.server} refused the connection: nobody listens there")
    elif facts.closed_by is None and flow.syns >= SYNS:
        found = Foreign(
            "no answer", Direction.REQUEST, f"nothing answered at {flow.server}: no such host, or a firewall"
        )
    return found

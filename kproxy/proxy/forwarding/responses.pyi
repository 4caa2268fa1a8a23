from kproxy.proxy.forwarding.lane import Lane

class ResponseLane(Lane):
    """From broker to client."""

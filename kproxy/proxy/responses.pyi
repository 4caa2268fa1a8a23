from kproxy.proxy.lane import Lane

class ResponseLane(Lane):
    """From broker to client."""

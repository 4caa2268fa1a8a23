from kproxy.proxy.forwarding.lane import Lane

class RequestLane(Lane):
    """From client to broker."""

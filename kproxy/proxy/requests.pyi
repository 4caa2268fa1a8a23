from kproxy.proxy.lane import Lane

class RequestLane(Lane):
    """From client to broker."""

"""Built in: faults on purpose, so that tests see what clients do when brokers fail.

    options.py    a fault: which requests it selects (calls), on which of them it fires, and what it does; scenarios; --fault
    rules.py      Rule: a fault ready to decide, its counts, and the Schedule of the calls on which it fires
    effects.py    errors in responses: for all of a request, for selected topics, or put into the broker's response
    filter.py     FaultInjection

What a fault does

    error        puts the error into each place of the response that has one. With ``topic`` only those topics fail: they are
                 removed from the request, the broker answers the rest, and their errors are put into its response
    delay        delays the request, or (when: after) the response; alone or before another effect
    throttle     sets throttle_time_ms in the broker's response, in the versions that have it
    disconnect   closes both sides
    black_hole   the request, or (when: after) the response, is dropped; the connection stays open. Kafka's responses come in the
                 order of their requests, so nothing behind it may pass: from there on the connection is silent
    truncate     sends only the first bytes of the response, whose size field promises more, then closes both sides

    With ``when: before`` the broker never sees the request: a Produce is not appended. With ``when: after`` the broker carries it
    out, but its response is lost or reports an error: a Produce is appended, and then sent again by the client. A Produce with
    acks=0 has no response: an error drops it, and ``after`` has no effect.

Calls

    A call of a fault is a request that it selects. Calls are counted over all connections, brokers and workers of the cluster,
    each number once, in the order in which kproxy reads the requests; ``call``, ``skip``, ``times`` and ``probability`` are
    decided by that number and the seed alone: the same seed chooses the same numbers after a restart and with any count of
    workers. If several clients send requests at once, the one that kproxy reads first gets the lower number: how many of them
    fail is fixed, but not whose. To fix that too, select one client (client_id).
    A request is a call of the faults in order up to the first that fires, so two faults with ``times: 2`` for the same requests
    fire on calls 1, 2 and 3, 4.
    Counts have the name of the fault: `calls` and `fired`, in /filters of the admin port and in kproxy_filter_events_total. They
    go on over a reload of the configuration; a fault of another name begins at 0.
    A Metadata request for no topics, and a Fetch of none, is no call of a fault with an error of topics.

With kproxy.testing these are a pytest fixture.
"""

from kproxy.filters.faults.filter import FaultInjection

__all__ = ["FaultInjection"]

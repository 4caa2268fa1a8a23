"""Built in: faults on purpose, so that tests see what clients do when brokers fail.

    options.py         a fault: which requests it selects (calls), on which of them it fires, and what it does
    scenarios.py       faults that are ready to use by name
    rules.py           Rule: a fault ready to decide, and its counts
    schedule.py        on which calls it fires: a function of the number of the call and the seed
    topics.py          topics in messages, by name and by id
    errors.py          errors in responses: whole, of the topics selected, in place of what the broker answered
    fetch_sessions.py  what a Fetch asks for, beyond what its request names
    filter.py          FaultInjection

What a fault does

    error        the error in each place of the response that has one. With ``topic`` only those topics fail: they are taken out
                 of the request, the broker answers the rest, and both are one response
    delay        of the request, or (when: after) of the response. Alone or before another effect
    throttle     throttle_time_ms of the broker's response, in the versions that have it
    disconnect   both sides are closed
    black_hole   the request, or (when: after) the response, is dropped; the connection stays open. Kafka's responses come in the
                 order of their requests, so nothing that is behind it may pass: the connection is silent from there on
    truncate     the first bytes of the response, whose size field promises more, then both sides are closed

    ``when: before`` is a request that the broker has never seen: a Produce that is not appended. ``when: after`` is one that it
    has carried out, and whose response is lost or says that it failed: a Produce that is appended, and sent again. A Produce with
    acks=0 has no response: an error drops it, and ``after`` has no effect.

Calls

    A call of a fault is a request that it selects. Calls are counted over all connections, brokers and workers of the cluster,
    each number once, in the order in which kproxy reads the requests; ``call``, ``skip``, ``times`` and ``probability`` are
    decided by that number and the seed alone: the same seed chooses the same numbers after a restart and with any count of
    workers. Of requests that several clients send at once, kproxy reads one first, and that has the lower number: how many of
    them fail is fixed, which client they are of is not. To fix that too, select one client (client_id).
    A request is a call of the faults in order up to the first that fires, so two faults with ``times: 2`` for the same requests
    fire on calls 1, 2 and 3, 4.
    Counts have the name of the fault: `calls` and `fired`, in /filters of the admin port and in kproxy_filter_events_total. They
    go on over a reload of the configuration; a fault of another name begins at 0.
    A Metadata request for no topics, and a Fetch of none, is no call of a fault with an error of topics.

With kproxy.testing these are a pytest fixture.
"""

from kproxy.filters.faults.filter import FaultInjection

__all__ = ["FaultInjection"]

"""Forwarding: what a byte goes through between a client and a broker. The hot path of a worker, in Cython.

    sockets.pyx   accept, connect and pump between two sockets: Acceptor, Poller, SocketPipe, pump()
    tls_side.pyx  TlsSide: decrypts and encrypts for a SocketPipe where a side of the link is TLS
    link.pyx      Link: a client's connection and the broker's; its life (a state table), answers of filters, what the
                  tap gets
    lane.pyx      Lane: one direction of a link; the state machine over its bytes, and who owns and bounds each buffer
                  (tables)
    plan.pyx      Plan: what is done with frames of each API and version; Walker: to a field of a body that is not kept
    in_flight.pxd requests to be answered, in order
    tap_cursor.pyx
                  WorkerTap, LinkTap, TapCursor: what the tap gets of each frame, and what it leaves out
    owner.py      LinkOwner: the interface by which these modules call the virtual cluster that owns a link

Words

    connection  one TCP connection, or the exchanges seen on it
    link        a client's connection and the broker's that serves it
    lane        one direction of a link
    pipe        reads one side of a link and writes the other, for one lane

The way of a byte

    Plain sockets. Acceptor.accept makes a Link and connects it. A chunk (up to 256 KiB) is received by
    SocketPipe.receive and given to Lane.process, which follows frames by their sizes and headers and calls
    SocketPipe.emit with everything that is cut through: one send(2) a chunk, usually. Then the chunk is copied to the
    tap (TapCursor, one memcpy).
    What the sink does not take stays in SocketPipe.unsent, and its source is not read until it is sent. No Python code
    runs.
    A TLS client. The acceptor calls LinkOwner.open_link; link_opening.py does the handshake (network/tls.py), connects to
    the broker and calls pump with a TlsSide. From then on SocketPipe decrypts each chunk it has received before the same
    Lane.process, and encrypts what the lane emits towards a side that is TLS. The tap, and so the analyzer, gets plaintext.

Which frames are held is decided by API and version, not by size; see kproxy.filters.contract.Want

    PASS    cut through: its bytes are sent while the rest is still arriving. Almost everything
    HOLD    held whole, then given to LinkOwner.on_request or on_response: what a filter asked for; SaslHandshake and
            raw SASL tokens are held as well, for kproxy itself
    HEAD    responses that have broker addresses at their beginning (Metadata, DescribeCluster): held up to the last address
            (LinkOwner.on_head, which may return another number of bytes and then corrects the size field), the rest is cut
            through. A head above 4 MiB closes with FRAME_TOO_BIG
    TAIL    responses that are big or frequent and have broker addresses at their end (Produce, Fetch, ShareFetch ...):
            cut through up to the first address, then held from there on (LinkOwner.on_tail, which must return the same
            number of bytes). When the walk comes to an address before any byte of the frame was sent, the frame is held whole
            instead, if at most 1 MiB is left from there. Without an address, it is cut through to its end
    REFUSE  the connection is closed: a required filter cannot read this API or version

    Size matters only as a bound: a HOLD frame above limits.held_frame_size (16 MiB) is a fault of each filter that
    asked for it, counted and logged, unless it can do with a part of it (Filter.wants_of_large). If each of them fails open
    it is cut through (or HEAD or TAIL, if another filter takes that), else the connection is closed with FRAME_TOO_BIG
    (Chain.when_too_large_to_hold), after an error in place of a response (Chain.refuse_large). A tail above 1 MiB closes with
    FILTER.

    So a 50 MB Metadata response passes with no more than its brokers in memory, and a 50 MB Fetch response with no more
    than its node endpoints. A filter that wants Metadata whole makes it HOLD: above held_frame_size (16 MiB) it is then
    passed by that filter and still rewritten, or the connection is closed, as the filter fails open or not.

    A rewritten tail keeps its size, as the size field has been sent: where the proxy's names are longer than the brokers'
    and there is no room, the endpoints are left out, and the client asks for Metadata instead (KIP-951 calls them hints).

What bounds memory

    Every buffer has a bound of its own (the table in lane.pyx). Worker.memory_budget (limits.memory) bounds their sum, and
    64 KiB for each link (BEYOND_BUDGET) are allowed above it. Above half of it chunks shrink, to 4 KiB in the end; at 0.90
    the tap pauses; at 0.98 no client is accepted (worker.py). At 1.0 a lane that holds a frame of more than 4 KiB is not
    read on (BY_MEMORY) until an eighth is free; what is cut through goes on in pieces of 4 KiB, or a record of TLS. If
    those that hold get no room for a second, or the sum is exceeded after all (answers of filters may be of any size),
    the link that has most in its buffers is closed with CloseCause.MEMORY: so the others always get on.
    Not counted: 18 KiB of a TLS record that is not complete and what OpenSSL keeps for each side with TLS (its
    BIOs 64 KiB or a little more); 4 KiB of requests in flight; the objects that filters are given for a held frame.

    Nothing of a link takes the event loop for more than some milliseconds: sockets that are ready and held frames in a chunk
    are handled for 2 ms in a turn (TURN_NS), frames above 128 KiB are decoded and encoded in a thread (codec_thread.py).

When the tap's ring is full: ends of frames, then whole exchanges are left out and counted, and traffic does not wait
(tap_cursor.pyx; kproxy.proxy.tap).

What goes wrong

    An exception out of a call into this package from the loop is caught at the entrance (Poller.handle,
    Lane.begin_turn, Acceptor.accept), given to LinkOwner.on_fault, and closes that link with CloseCause.ERROR.
    Abstract methods that a subclass forgets raise TypeError, state changes that are not in the tables raise
    RuntimeError: both end there.

To add

    a kind of link (another transport): a Pipe of its own beside SocketPipe that overrides each method of Pipe
        (lane.pyx), and calls Lane.process, Link.on_eof, source_lost and sink_lost; what connects it calls Link.join
        (link_opening.py)
    a close cause: a member at the end of CloseCause (tap/counted.py); then Link.close(CloseCause.X) where it happens
    a metric: a member of Total (tap/counted.py) and its Description (output/metric_descriptions.py); count with
        ``counters.total(X)[0] += 1`` here, ``counters.add(Total.X)`` in Python
    a question to the virtual cluster: a method of LinkOwner (owner.py), answered in virtual_cluster.py
    a state or a transition of the lane: the docstring's table, TRANSITIONS, one function, one test (test_lane.py
    compares them)
"""

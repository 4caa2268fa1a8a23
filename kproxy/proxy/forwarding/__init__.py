"""Forwarding: how bytes get from a client to a broker and back. The hot path of a worker, in Cython.

    sockets.pyx   accept, connect and pump between two sockets: Acceptor, Poller, SocketPipe, pump()
    tls_side.pyx  TlsSide: decrypts and encrypts for a SocketPipe where a side of the link is TLS
    link.pyx      Link: a client's connection and the broker's; its life (a state table), answers of filters
    lane.pyx      Lane: one direction of a link; the state machine over its bytes, and who owns and bounds each buffer
                  (tables)
    plan.pyx      Plan: what lanes do with frames of each API and version; Walker: finds a field in a body that is not kept
    in_flight.pxd the requests that wait for responses, in order
    tap_cursor.pyx
                  WorkerTap, LinkTap, TapCursor: what the tap gets of each frame, and what is left out
    owner.py      LinkOwner: what these modules call on the virtual cluster that owns a link

Words

    connection  one TCP connection, or the exchanges seen on it
    link        a client's connection and the broker's that serves it
    lane        one direction of a link
    pipe        reads one side of a link and writes the other, for one lane

The way of a byte

    Plain sockets. Acceptor.accept makes a Link and connects it. SocketPipe.receive receives a chunk (up to 256 KiB) and gives
    it to Lane.process, which follows frames by their sizes and headers and calls SocketPipe.emit with everything that is cut
    through: usually one send(2) for each chunk. Then the chunk is copied to the tap (TapCursor, one memcpy). What the sink does
    not take stays in SocketPipe.unsent, and the source is not read until that is sent. No Python code runs.
    A TLS client. The acceptor calls LinkOwner.open_link; link_opening.py does the handshake (network/tls.py), connects to
    the broker and calls pump with a TlsSide. From then on SocketPipe decrypts each chunk before it calls the same Lane.process,
    and encrypts what the lane emits towards a side with TLS. The tap, and so the analyzer, gets plaintext.

Which frames are held is decided by API and version, not by size; see kproxy.filters.contract.Want

    PASS    cut through: its bytes are sent while the rest is still arriving. Almost everything
    HOLD    held whole, then given to LinkOwner.on_request or on_response, because a filter asked for it. kproxy itself
            holds SaslHandshake and raw SASL tokens. Where all of these filters are for some topics, the first bytes of a frame
            decide (LinkOwner.on_beginning): if it has one topic, and that is none of theirs, it is PASS or TAIL
    HEAD    responses that have broker addresses at their beginning (Metadata, DescribeCluster): held up to the last address
            (LinkOwner.on_head, which may return another number of bytes and then corrects the size field), the rest is cut
            through. A head above 4 MiB closes with FRAME_TOO_BIG
    TAIL    responses that are big or frequent and have broker addresses at their end (Produce, Fetch, ShareFetch ...):
            cut through up to the first address, then held from there on (LinkOwner.on_tail, which must return the same
            number of bytes). When the walk comes to an address before any byte of the frame was sent, the frame is held whole
            instead, if at most 1 MiB is left from there. Without an address, it is cut through to its end
    REFUSE  the connection is closed: a required filter cannot read this API or version

    Size matters only as a bound. A HOLD frame above limits.held_frame_size (16 MiB) counts as a fault of each filter that asked
    for it, and is logged, unless a part of the frame is enough for the filter (Filter.wants_of_large). If all of these filters
    fail open, the frame is cut through (or HEAD or TAIL, if another filter wants that). Otherwise the connection is closed with
    FRAME_TOO_BIG (Chain.when_too_large_to_hold), after an error in place of a response (Chain.refuse_large). A tail above 1 MiB
    closes it with FILTER.

    So a 50 MB Metadata response passes with no more than its brokers in memory, and a 50 MB Fetch response with no more
    than its node endpoints. A filter that wants Metadata whole makes it HOLD: above held_frame_size (16 MiB) it is then
    passed by that filter and still rewritten, or the connection is closed, as the filter fails open or not.

    A rewritten tail keeps its size, as the size field has been sent. If the proxy's names are longer than the brokers' and do not
    fit, the endpoints are left out; the client then asks for Metadata (KIP-951 calls the endpoints hints).

What bounds memory

    Every buffer has a bound of its own (the table in lane.pyx). Worker.memory_budget (limits.memory) bounds their sum, and
    64 KiB for each link (BEYOND_BUDGET) are allowed above it. Above half of it chunks shrink, to 4 KiB in the end; at 0.90
    the tap pauses; at 0.98 no client is accepted (worker.py). At 1.0 a lane that holds a frame of more than 4 KiB is not
    read on (BY_MEMORY) until an eighth is free; what is cut through goes on in pieces of 4 KiB, or a record of TLS. If
    lanes that hold frames get no room for a second, or the sum is exceeded after all (answers of filters may have any size),
    the link with the largest buffers is closed with CloseCause.MEMORY, so that the others always get on.
    Not counted are 18 KiB of an incomplete TLS record and what OpenSSL keeps for each side with TLS (BIOs of 64 KiB or a
    little more), 4 KiB of requests in flight, and the objects that filters get for a held frame.

    No link takes the event loop for more than some milliseconds: ready sockets and held frames in a chunk are handled for 2 ms
    in a turn (TURN_NS); frames above 128 KiB are decoded and encoded in a thread (codec_thread.py), unless they are records for
    the most part: then the filters say what takes long.

When the tap's ring is full, the ends of frames, then whole exchanges are left out and counted; traffic does not wait
(tap_cursor.pyx; kproxy.proxy.tap).

What goes wrong

    An exception in a call from the loop into this package is caught at the entrance (Poller.handle, Lane.begin_turn,
    Acceptor.accept), given to LinkOwner.on_fault, and closes that link with CloseCause.ERROR. So are the TypeError of an
    abstract method that a subclass forgot and the RuntimeError of a state change that is not in the tables.

To add

    a kind of link (another transport): another subclass of Pipe that overrides each of its methods
        (lane.pyx) and calls Lane.process, Link.on_eof, source_lost and sink_lost; what connects it calls Link.join
        (link_opening.py)
    requests of kproxy's own between a client's: as those of its login (Link.begin_login, send_own_request, end_login)
    a close cause: a member at the end of CloseCause (tap/counted.py); then Link.close(CloseCause.X) where it happens
    a metric: a member of Total (tap/counted.py) and its Description (output/metric_descriptions.py); count with
        ``counters.total(X)[0] += 1`` here, ``counters.add(Total.X)`` in Python
    a question to the virtual cluster: a method of LinkOwner (owner.py), answered in virtual_cluster.py
    a state or a transition of the lane: the docstring's table, TRANSITIONS, one function, one test (test_lane.py
    compares them)
"""

"""Memory that processes share: the tap ring (worker to analyzer), counters (worker to supervisor), limits (all workers).

    ring.pyx           the tap: TapWriter, TapReader; one writer, one reader, no locks, no waiting
    tapped.py          TapKind: the kinds of its records
    counters.pyx       Counters: totals, closes by cause, requests and responses by API, open connections by address;
                       SharedLimits: the places of clients, by atomic steps
    counted.py         Total, CloseCause, Phase: names of what is counted. C reads them at import; there is no other list
    sealed.py          memfds whose size cannot change
    shared_memory.pxd  mapping, atomic loads and stores

The supervisor makes a ring and counters for each worker, and one doorbell (eventfd) for all; children inherit them. So counters
outlive a worker that dies, and a new analyzer goes on with the ring of the old one.

Records of the ring: (kind, connection, direction, at in ns since the epoch, bytes)

    OPEN      JSON about the connection (LinkOwner.describe); the bytes that follow begin with a frame. Again for each reader
    DATA      bytes as they were received, and how long after that they were sent on; of a response that a filter made, the bytes
              that were sent
    SENT      when the last requests were sent on, where that was after their DATA was written: the broker's socket had no
              room, or a filter took its time. For responses this stays unknown: the analyzer passes exchanges on as soon as they
              are whole
    EDITED    what filters did to a message, a line each ("request changed by mask"): the one that ends next in this direction. So
              the last byte of a message that waits for a verdict is written after the verdict
    LEFT_OUT  how many bytes of a frame are left out here, as the analyzer was behind: 8 bytes, little-endian
    SNAPPED   how many bytes were cut off by ``analysis.snaplen``, likewise
    END       this side closed (FIN) or was reset: one byte, 1 for a reset
    CLOSE     the connection was closed: one byte, the CloseCause, and the number of requests written since OPEN: 8 bytes
    LOST      how many bytes are missing where the framing is unknown too; workers do not write it any more

What the ring has no room for is left out by its meaning, and counted; traffic neither waits nor changes. First the ends of large
frames are left out, then whole exchanges: a request and its response. The writer reserves room for what must follow a record:
once a request is written, at least the beginning of its response will be, and so will END and CLOSE
(kproxy.proxy.forwarding.tap_cursor has the rules, ring.pyx the arithmetic). So

    requests that passed (kproxy_requests) = exchanges that the analyzer got + kproxy_exchanges_left_out, by reason

    analyzer_behind     there was no room
    analyzer_absent     no reader was attached when the request came
    analyzer_restarted  a reader had read the request, and ended before its exchange was in the outputs: what was written minus
                        what it settled (TapReader.settle); counted once the next reader is there
    memory_budget       the tap was paused (limits.memory)
    not_selected        the configuration leaves it out: analysis.api_name, analysis.sample
    fault               the connection could not be described, or its analysis failed
    analyzer_limits     the analyzer gave the connection up: there were too many, or it held too much
    output              the decoded log could not be written: a full disk

kproxy_bodies_left_out counts frames whose ends were left out. kproxy_tap_dropped_bytes and _chunks count all bytes, and all
frames or their ends, that were left out for any reason but the configuration; kproxy_analysis_lost_bytes is the same number.

To add a metric: a member of Total (counted.py), at the end; in GAUGES if it can go down; and its Description in
kproxy/output/metric_descriptions.py, whose source is ``workers.`` and the member's name in lower case. Then count it:
``counters.total(X)[0] += 1`` in Cython, ``counters.add(Total.X)`` in Python. To add a close cause: a member of
CloseCause, at the end. There are 64 places for each (counters.pxd); import fails if they are exceeded.
"""

"""Memory that processes share: the tap ring (worker to analyzer), the counters (worker to supervisor), the limits (all workers).

    ring.pyx           the tap: TapWriter, TapReader; one writer, one reader, no locks, no waiting
    tapped.py          TapKind: the kinds of its records
    counters.pyx       Counters: totals, closes by cause, requests and responses by API, open connections by address
    shared_limits.pyx  SharedLimits: the places of clients, by atomic steps; one for all workers
    counted.py         Total, CloseCause, ApiTotals: names of what is counted. The only list of them: C reads it at import
    sealed.py          memfds whose size cannot change
    shared_memory.pxd  mapping, atomic loads and stores

The supervisor makes ring and counters for each worker, and children inherit them; so counters outlive a worker that dies, and
a new analyzer goes on with the ring of the old one.

Records of the ring: (kind, connection, direction, at in ns since the epoch, bytes)

    OPEN   JSON about the connection (LinkOwner.describe); again for each new reader
    DATA   bytes as they were received; of a response made by a filter, as it was sent
    LOST   how many bytes of this direction are missing here: 8 bytes, little-endian
    END    that side sent its end (FIN), or was lost
    CLOSE  the connection was closed: one byte, the CloseCause

When a record does not fit, TapWriter.write returns -1 and writes nothing; one larger than half the ring never fits. The
link counts the bytes (Total.TAP_DROPPED_BYTES and _CHUNKS, in metrics kproxy_tap_dropped_*), and writes a LOST record
before its next one that fits. The analyzer's session then resumes at a frame it can recognise, and says that bytes were
missing. Traffic neither waits nor changes. OPEN is tried again with the next bytes; a CLOSE that was dropped is made up
for when the connection has long been silent. The same happens while no reader is attached (the analyzer died), and
while the memory budget pauses the tap.

To add a metric: a member of Total (counted.py), at the end; in GAUGES if it can go down; and its Description in
kproxy/output/metric_descriptions.py, whose ``total`` is the member's name in lower case. Then count it:
``counters.total(X)[0] += 1`` in Cython, ``counters.add(Total.X)`` in Python. To add a close cause: a member of
CloseCause, at the end. There are 64 places for each (counters.pxd); import fails if they are exceeded.
"""

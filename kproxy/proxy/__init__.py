"""Sockets: listeners, links, brokers, TLS, the tap. With the command line the only room that waits and asks the time.

Three kinds of process

    supervisor   `kproxy run` itself: reads the configuration, starts and restarts the others, turns signals and changed files
                 into messages, serves the admin port. Carries no traffic.
    worker       forwards: one uvloop each; several share a port (SO_REUSEPORT). `python -m kproxy.proxy.worker`
    analyzer     reads the taps of all workers, runs a Session a connection, writes the decoded log and captures. Killed, hung or
                 slow, it costs no client anything. `python -m kproxy.proxy.analyzer.process kproxy-analyzer`

The way of a byte through a worker

    acceptor.pyx    accepts, asks admission.py, makes a Link and has it connected; what takes more is opening.py's
    link.pyx        Link: a client's connection and the broker's, what is in flight (in_flight.pxd), what the tap gets, its end
    lane.pyx        Lane: one direction: which bytes go on at once, which are gathered first, when it stands still. Its Pipe reads
                    and writes
    requests.pyx, responses.pyx   the lanes of each side: frames by size and header, raw SASL tokens, pairing, acks=0
    walker.pyx      a resumable walk over a body that passes by: Produce's acks, where the addresses at the end begin
    pump.pyx        Pipe between two plain sockets: recv, send, an epoll of our own that uvloop watches
    streams.pyx     Pipe between uvloop's transports, where either leg is TLS
    plan.pyx        Chain and facts -> the tables a lane looks up
    counters.pyx    what is counted, in memory that the supervisor reads
    ring.pyx        the tap: one writer, one reader, in shared memory; what does not fit is dropped and counted

    Bytes are the kernel's until a lane has them; a lane owns what it carries, holds or stashes; a Pipe owns what its sink has not
    taken. All of it counts in BUFFERED_BYTES, which the memory budget bounds.

Around it

    virtual_cluster.py  one bootstrap address of ours: listeners, plan, targets, the owner of its links; verdicts.py: held frames
                    to the chain and back; opening.py: TLS, PROXY headers, names, original targets; lingering.py: clients that
                    are told the end
    admission.py, listening.py, discovery.py   limits; sockets to listen on; asking a broker which brokers there are;
                    instead.py: what somebody speaks who does not speak Kafka, and which setting helps
    brokers.py      BrokerTable: node ids, where they are, which port of ours stands for them; what may not be mapped
    upstream.py     resolving (resolver.py, endpoint.py) and connecting, SOCKS5 and HTTP CONNECT (through.py)
    proxy_protocol.py   PROXY protocol v1 and v2 (bytes only)
    tls.py          contexts for both legs, made anew when files change
    transparent.py  where a redirected client was going
    worker.py
    analyzer.py     reads the taps and tells the supervisor; tapped_sessions.py: their Sessions, none of which harms another
    analysis_counts.py, analysis_outputs.py, rotation.py   what it counts, what it writes, in which parts
    admin.py        the admin port: metrics, health, connections; nothing can be changed there
    counted.py, tapped.py   the names of what is counted and of what is in a tap, for Python; sealed.py: the memory of both
    supervisor.py   one run: signals, changed files, the exit code
    fleet.py        workers and analyzer together; child.py: one place for a process; processes.py: how they are started
    control.py      the channel between supervisor and children, and all that is said on it
    overview.py     what the admin server is told; admin_server.py: it on its port
    logs.py         events on standard error, and the only keys they have
    watch.py, probe.py  files that have changed; addresses that another process serves

Shared memory and channels

    Each worker has one memfd of counters and one of its tap ring, made by the supervisor and inherited. Supervisor and child
    talk over a socket pair in JSON lines (control.py): `{"do": "configure" | "drain" | "connections" | "brokers" | ..., ...}`.

Seams

    Tap ring records (ring.pyx): kind, connection number, direction, at (ns since the epoch), bytes. OPEN (JSON: number,
    cluster, client, broker, from_start), DATA, LOST (bytes that did not fit), END (FIN), CLOSE (cause).
    ``TapReader.read(most) -> list[TapItem]``.
    Counters (counters.pyx): ``Counters.create()`` / ``Counters(fd)``; ``.apis()``, ``.closes()``, ``.totals()`` give
    plain Python values.
"""

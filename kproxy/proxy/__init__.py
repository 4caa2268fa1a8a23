"""Sockets: listeners, links, brokers, TLS, the tap. With the command line the only room that waits and asks the time.

Three kinds of process

    supervisor   `kproxy run` itself: reads the configuration, starts and restarts the others, turns signals and changed files
                 into messages, serves the admin port. Carries no traffic.
    worker       forwards: one uvloop each; several share a port (SO_REUSEPORT). `python -m kproxy.proxy.worker`
    analyzer     reads the taps of all workers, runs a Session a connection, writes the decoded log and captures. Killed, hung or
                 slow, it costs no client anything. `python -m kproxy.proxy.analyzer kproxy-analyzer`

The way of a byte through a worker

    acceptor.pyx    accepts, asks limits, makes a Link and has it connected
    link.pxd/.pyx   Link: one client's connection and the broker's, what is in flight, which Plan holds; Lane: one direction of
                    it: cuts it in frames by size field and header alone, says of each byte whether it goes on at once
    walker.pxd/.pyx a resumable walk over a body that passes by: Produce's acks, where the addresses at the end begin
    pump.pyx        Lane on two plain sockets: recv, scan, send from one buffer, by uvloop's add_reader
    streams.py      Lane on uvloop transports, where either leg is TLS
    connection.py   what happens to one connection in words: opened, held frames to the chain, verdicts back, closed and why
    counters.pxd/.pyx   what is counted, in memory that the supervisor reads
    ring.pxd/.pyx   the tap: one writer, one reader, in shared memory; what does not fit is dropped and counted

Around it

    plan.py         Chain and facts -> the tables a Lane looks up
    brokers.py      BrokerTable: node ids, where they are, which port of ours stands for them; what may not be mapped
    upstream.py     from "host:port" to a connected socket: every address of a name in turn, in bounded time; PROXY protocol out
    resolver.py     names to addresses, remembered; what failed lately comes last
    through.py      SOCKS5 and HTTP CONNECT
    endpoint.py     "host:port" as text; numbers and names
    transparent.py  where a redirected client wanted to go; own connections that come back
    proxy_protocol.py   PROXY protocol v1 and v2 (bytes only)
    tls.py          contexts for both legs, made anew when files change
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

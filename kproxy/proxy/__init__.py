"""`kproxy run`: the proxy. Only this package and cli use the network, wait, or read the clock.

Three kinds of process

    supervisor   `kproxy run` itself: reads the configuration, starts and restarts the others, handles signals and changed files,
                 writes the log, serves the admin port. Carries no traffic. Enter at supervisor/process.py
    worker       forwards; one uvloop each, and all share the ports (SO_REUSEPORT). Enter at worker.py
    analyzer     reads the taps of all workers, decodes, writes the decoded log and captures, counts. When it is killed,
                 hangs or is slow, traffic is not affected. Enter at analyzer/process.py

    `ps` shows "kproxy run --listen ...", "kproxy: worker 0", "kproxy: analyzer (kproxy-analyzer)" (process_title.py).

Packages

    forwarding/   what a byte goes through: lanes, links, pumps (Cython). Its docstring: the way of a byte, plain and TLS; what
                  is held for filters; what bounds memory
    network/      resolving, connecting, listening, TLS, PROXY protocol, SOCKS5 and HTTP CONNECT, redirected clients. No Kafka
    tap/          memory that processes share: the tap ring (worker -> analyzer) and the counters (worker -> supervisor)
    analyzer/     the analyzer process: taps -> kproxy.pipeline -> files and counts
    supervisor/   the supervisor process

One cluster in one worker

    worker.py             the worker process: handles messages, ticks, keeps the memory budget; has the virtual clusters
    virtual_cluster.py    VirtualCluster: listeners, limits, timeouts; the owner of its links (LinkOwner). It names its parts
    filter_dispatch.py    FilterDispatch: held frames through the filter chain and back
    filter_runtime.py     FilterRuntime: the clock, the timer, the journals, the shared sets and counts that filters get
    shared_times.py       SharedTimes: times that the filters of all workers move on together: the rates of throttle
    shared_counts.py      SharedCounts: what filters count together in all workers, for /filters and /metrics
    shared_sets.py        SharedSets: what the filters of a cluster know together in all workers
    stops.py              Stops: the messages that breakpoints have stopped (kproxy.filters.breakpoints)
    otlp/                 exporting over OTLP: spans by the analyzer, metrics of clients by workers
    journals.py           Journals: those of one worker, opened when they are asked for
    journal.py            FileJournal: numbered lines in a file; none is lost uncounted, also when the process is killed
    link_opening.py       LinkOpener: links with TLS, a name to resolve, PROXY headers or another proxy on the way
    aside.py              aside: decodes and encodes large held frames in a thread, so that the loop goes on
    brokers.py            BrokerTable: node ids, broker addresses, our ports; refuses addresses that lead inside
    advertised.py         AdvertisedAddresses: the host and port that responses give clients for each broker
    reachability.py       whether a broker has been reached, for /readyz
    memory_reserve.py     what a worker gives up when it gets no more memory
    asking.py             Asking: a few requests of kproxy's own to a broker; used by discovery.py and kproxy.doctor
    discovery.py, admission.py, link_description.py, raw_sasl.py, foreign_protocol.py    (see their first lines)

What processes share

    messages.py           all messages between supervisor and children: a Struct each, a union for each receiver
    channel.py            the channel they go over: JSON lines on a socket pair. It ends when either process is gone
    child_process.py      the first steps of a child: arguments, title, signals; it dies with its parent
    page_records.py       what the analyzer tells the process of the live page (kproxy.page.live), over a socket
    logs.py               log(event, keys), and the only list of keys. Children send their events to the supervisor

To add

    a listener kind or another way to a broker   LinkOpener (link_opening.py): a step; a setting for it (below)
    a setting       config/structs.py, its checks in config/checks.py; used in VirtualCluster.configure (of a cluster, limits,
                    timeouts), Analyzer.configure or Fleet.change. Workers get the Config whole, in Configure
    a metric        Total in tap/counted.py and its Description in output/metric_descriptions.py; one of the analyzer: a field of
                    AnalyzerCounts (messages.py) and its name in output/metrics.py
    a close cause   CloseCause in tap/counted.py, then Link.close(CloseCause.X)
    a log key       KEYS in logs.py; keys that are not there are dropped
    a message       messages.py
    an admin page   supervisor/admin.py
"""

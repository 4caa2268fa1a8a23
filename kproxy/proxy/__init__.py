"""`kproxy run`: the proxy. Only this package and kproxy.cli use the network, wait, or read the clock.

Three kinds of process

    supervisor   `kproxy run` itself: reads the configuration, starts and restarts the others, handles signals and changed files,
                 writes the log, serves the admin port. Carries no traffic. Enter at supervisor/process.py
    worker       forwards. Each has a uvloop event loop; all share the ports (SO_REUSEPORT). Enter at worker.py
    analyzer     reads the taps of all workers, decodes, writes the decoded log and captures, counts. Traffic goes on unaffected
                 when it is killed, hangs or is slow. Enter at analyzer/process.py

Packages

    forwarding/   the hot path, in Cython: how bytes get from a client to a broker and back, plain and TLS; which frames are held
                  for filters; what bounds memory
    network/      resolving, connecting, listening, TLS, PROXY protocol, SOCKS5 and HTTP CONNECT, redirected clients. No Kafka
    tap/          memory that processes share: the tap ring (worker to analyzer) and the counters (worker to supervisor)
    otlp/         exporting over OTLP: spans from the analyzer, metrics of clients from workers
    analyzer/     the analyzer process: taps -> kproxy.pipeline -> files and counts
    supervisor/   the supervisor process

One worker

    worker.py             the worker process: handles messages, ticks, keeps the memory budget, owns the virtual clusters
    virtual_cluster.py    VirtualCluster: listeners, limits, timeouts; the owner of its links (LinkOwner)
    link_opening.py       LinkOpener: opens links that need TLS, a resolved name, a PROXY header or another proxy on the way
    filter_dispatch.py    FilterDispatch: runs held frames through the filter chain and applies the verdicts
    filter_runtime.py     FilterRuntime: what filters get from kproxy: clock, timer, journals, shared sets, counts and times
    shared_counts.py      SharedCounts: what filters of all workers count together; rates of the filter throttle
    shared_sets.py        SharedSets: names that filters of all workers know together
    stops.py              Stops: the messages that breakpoints have stopped (kproxy.filters.breakpoints)
    journals.py           Journals: the journals of one worker, opened when first asked for
    journal.py            FileJournal: numbered lines in a file, each written or counted as dropped, even if the process is killed
    codec_thread.py       a thread that decodes and encodes large held frames while the event loop goes on
    brokers.py            BrokerTable: node ids, broker addresses, kproxy's ports; refuses addresses that lead inside
    advertised.py         AdvertisedAddresses: the host and port that responses give clients for each broker
    reachability.py       whether a broker has been reached, for /readyz
    memory_reserve.py     memory that a worker gives up when it can get no more
    asking.py             Asking: a few requests of kproxy's own to a broker; such as the list of brokers; also for kproxy.doctor
    admission.py, link_description.py, raw_sasl.py    see their first lines

What all processes use

    messages.py           all messages between supervisor and children: a Struct for each, a union for each receiver
    channel.py            the channel that carries them: JSON lines on a socket pair. It ends when either process is gone
    child_process.py      how a child begins: arguments, title, signals; it dies with its parent
    page_records.py       what the analyzer sends the process of the live page (kproxy.page.live) over a socket
    logs.py               log(event, keys), and the only list of keys. Children send their events to the supervisor

To add

    a listener kind or another way to a broker, such as a login of kproxy's own
                    LinkOpener (link_opening.py): a step of ``_open``, and a setting
    a setting       config/structs.py, its checks in config/checks.py; used in VirtualCluster.configure (clusters, limits,
                    timeouts), Analyzer.configure or Fleet.change. Workers get the whole Config in Configure
    a metric        of a worker: Total in tap/counted.py and its Description in output/metric_descriptions.py; of the analyzer:
                    a field of AnalyzerCounts (messages.py) and its name in output/metrics.py
    a close cause   CloseCause in tap/counted.py, then Link.close(CloseCause.X)
    a log key       KEYS in logs.py; other keys are dropped
    a message       messages.py
    an admin page   supervisor/admin.py
"""

"""`kproxy run`: the proxy. Only this package and kproxy.cli use the network, wait, or read the clock.

Three kinds of process

    supervisor   `kproxy run` itself: reads the configuration, starts and restarts the others, handles signals and changed files,
                 writes the log, serves the admin port. Carries no traffic. Enter at supervisor/start.py
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
    virtual_cluster.py    VirtualCluster: listeners, limits, timeouts; the owner of its links (LinkOwner in forwarding/owner.py)
    link_opening.py       LinkOpener: opens links that need TLS, a resolved name, a PROXY header or another proxy on the way;
                          what a link is called in logs, in the tap and at /connections
    broker_login.py       BrokerLogin, LinkLogin: log a link in to its broker between its client's requests, and again before the
                          session ends
    client_logins.py      ClientLogins: clients log in to kproxy (kproxy.authentication); token_keys.py: the keys of their tokens
    admission.py          Admission: limits of clients per address and second; memory that is given up for the open connections
    brokers.py            BrokerTable: node ids, broker addresses, kproxy's ports; refuses addresses that lead inside.
                          AdvertisedAddresses: what clients are given instead. Reachability, for /readyz
    filter_dispatch.py    FilterDispatch: runs held frames through the filter chain and applies the verdicts; tells SASL tokens
                          from requests
    filter_runtime.py     FilterRuntime: what filters get from kproxy: clock, timer, journals, shared sets, counts and times
    shared_state.py       what the filters of all workers share: SharedCounts and SharedTimes in memory, SharedSets by messages
    journal.py            FileJournal: numbered lines in a file, each written or counted as dropped, even if the process is killed
    codec_thread.py       a thread that decodes and encodes large held frames while the event loop goes on
    stops.py              Stops: the messages that breakpoints have stopped (kproxy.filters.breakpoints)

What several processes use

    messages.py           all messages between supervisor and children: a Struct for each, a union for each receiver; the Channel
                          that carries them: JSON lines on a socket pair. It ends when either process is gone
    environment.py        the environment of programs that kproxy starts
    child_process.py      how a child begins: arguments, title, signals; it dies with its parent
    logs.py               log(event, keys), and the only list of keys. Children send their events to the supervisor
    scheduling.py         how the kernel shares a core between workers, analyzer and page; the pace of the analyzer's event loop
    system_calls.pyx      calls that Python has no function for: prctl, sched_setattr, an exception for another thread
    page_records.py       what the analyzer sends the process of the live page (kproxy.page.live) over a socket
    broker_client.py      BrokerClient: a few requests of kproxy's own to a broker, such as for the list of brokers; also for
                          kproxy.doctor

To add

    a listener kind or another way to a broker
                    LinkOpener (link_opening.py): a step of ``_open``, and a setting
    a setting       config/structs.py, its checks in config/checks.py; used in VirtualCluster.configure (clusters, limits,
                    timeouts), Analyzer.configure or Fleet.change. Workers get the whole Config in Configure
    a metric        of a worker: Total in tap/counted.py and its Description in output/metric_descriptions.py; of the analyzer:
                    a field of AnalyzerCounts (messages.py), and its line in output/metric_descriptions.py
    a close cause   CloseCause in tap/counted.py, then Link.close(CloseCause.X)
    a log key       KEYS in logs.py; other keys are dropped
    a message       messages.py
    an admin page   supervisor/admin.py
"""

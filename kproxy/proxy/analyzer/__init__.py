"""The analyzer process: reads the taps of all workers, decodes them with kproxy.pipeline, writes files and counts.

    process.py        Analyzer and its loop: reads the rings in batches, handles the supervisor's messages, gives up a record that
                      takes seconds of CPU; the files that it writes (FILES), rotated
    tap_decoder.pyx   TapDecoder: tap records -> the pipeline's connections
    settling.py       which requests of the rings are in the decoded log for good, for exact counts after a kill
    counts.py         AnalysisCounts: an output that counts for /metrics, within bounds; Logins
    exchange_counts.pyx  ExchangeCounts: what is counted of each exchange, by client, software, topic and group
    series.pyx        Series: numbers by names from traffic, for those that send most; BoundedCounter
    lag.pyx           GroupLag: how far consumer groups are behind
    traces.py         TraceExport: exchanges as spans, exported over OTLP (kproxy.proxy.otlp), if the configuration asks for them
    page_feed.py      PageFeed: exchanges for the live page while a browser has it open. Where the page is too slow: a sample, and
                      the rare exchanges that analyses need one and all. past.pyx: the last exchanges, for a page to come

It looks at the rings some times a second while there is traffic, at once when a ring fills, and sleeps without traffic until a
worker rings its doorbell (tap/ring.pyx).

What each exchange passes on the way from a ring to its counts is compiled: TapReader, TapDecoder, Connections, Session,
LiveEvents, ExchangeCounts, PastEvents. Python is called for what few exchanges have, and for outputs that show each.

Its share of the CPU is what others leave, unless that starves it: kproxy/proxy/scheduling.py.

Traffic goes on unaffected when the analyzer is killed, restarted or slow: the taps then leave out bytes and count them
(kproxy.proxy.tap). A new analyzer process goes on with the rings of the old one; workers describe their open connections
again, and the old one's files are rotated.

To add a file: an entry of FILES (process.py) and its options in config.Analysis.
To add a count: a field of AnalyzerCounts (kproxy/proxy/messages.py), its line in kproxy/output/metric_descriptions.py.
To add a kind of name: a Series of ExchangeCounts, its name in AnalysisCounts._series, and its metrics in
kproxy/output/metric_descriptions.py.
"""

"""The analyzer process: reads the taps of all workers, decodes them with kproxy.pipeline, writes files and counts.

    process.py       Analyzer and its loop: reads the rings in batches, handles the supervisor's messages, gives up a record that
                     takes seconds of CPU
    pace.py          its share of the CPU: what others leave, unless that starves it; the thread of the event loop
    tap_decoder.py   TapDecoder: tap records -> the pipeline's connections
    outputs.py       the files of the configuration (decoded log, capture) as outputs of the pipeline, rotated
    traces.py        TraceExport: exchanges as spans, exported over OTLP (kproxy.proxy.otlp); only where they are asked for
    page_feed.py     PageFeed: exchanges for the live page, while a browser has it open; sampled where it is too slow,
                     but for what analyses need each of (rare_exchanges.py)
    settling.py      what of the rings is in the log for good, for exact counts after a kill
    counts.py        AnalysisCounts: an output that counts for /metrics, bounded
    series.py        Series: numbers by client id, software, topic, group; those that send most, for a bounded number of names

When it is killed, restarted or slow, traffic is not affected: the taps drop bytes and count them (kproxy.proxy.tap).
A new process goes on with the rings of the old one; workers describe their open connections again, and the files of the
old one are rotated.

To add a file: an entry of FILES (outputs.py) and its options in config.Analysis. To add a count: a field of AnalyzerCounts
(kproxy/proxy/messages.py), its metric in kproxy/output/metrics.py. To add a
kind of name: a Series of AnalysisCounts, its metrics in SERIES there.
"""

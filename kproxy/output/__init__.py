"""Events to people and machines: the decoded log, text, packets, tables, metrics.

Every module turns events into strings, bytes or Arrow; only tables/parquet.py writes files, because a table is a directory of
several. from_jsonl.py turns lines back into events.

    jsonl.py         the decoded log: one JSON object a line; its docstring is the contract
    exchange_line.pyx the line of an exchange, compiled
    from_jsonl.py    lines of the decoded log back to events
    where.py         --where: conditions in CEL over exchanges
    entities.py      fields of conditions that the decoded log lacks: topics, groups, principal
    text/            for people: one line an exchange, and the tree of its fields
    packets.pyx      the blocks of a pcapng file, and packets of TCP connections that carry given bytes
    rewriting/       frames with other contents of the same size: credentials withheld, --anonymize
    tables/          columns for analysis: contracts, rows of events, Parquet files
    metrics.py       Prometheus metrics, described in metric_descriptions.py; formats: histograms.py;
                     what workers count by API: api_counts.py
    client_metrics.py metrics that clients measured and sent (KIP-714)
    spans.py         trace spans of OpenTelemetry, and the trace contexts that producers put in records

    bodies.py        both bodies of an exchange as Kafka's JSON, read once, with what is inside bytes and records fields (Opener);
                     what is missing; error codes and names in them
    small_bodies.pxd what is made of small bodies is kept for equal ones: their JSON, their parts of rows
    tls.py           what is known about a connection's TLS, as an object of the decoded log and in words
    escaping.py      strings from the wire made safe for a terminal, and as labels of metrics
    times.py         times, durations and sizes as text

The text outputs read Kafka's JSON of the bodies, in which credentials are already withheld; captures are made of frames.
kproxy.pipeline decides which output gets which event, and is where a new format is registered (pipeline/output.py).

To add
    a field of the decoded log     jsonl.py: its docstring; exchange_line.pyx: the line; from_jsonl.py to read it back;
                                   kproxy.protocol.vocabulary: its type and meaning
    a fact to a line of text       text/key_facts.py
    a column or a table            tables/__init__.py says where
    a metric                       of a worker: kproxy.proxy.tap; of the analyzer: kproxy.proxy.analyzer
    a rule of --anonymize          rewriting/anonymize.py
"""

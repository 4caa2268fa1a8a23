"""Events to people and machines: text lines and trees, the decoded log, captures, tables.

Bytes, strings and Arrow come out; only parquet.py writes files itself, as tables are many.

    jsonl.py        the decoded log: one JSON object a line; its docstring is the contract
    from_jsonl.py   its lines back to events, for whoever shows them
    text.py         one line an exchange, for people
    tree.py         the whole of an exchange, field by field, special values by name, what to do after an error
    where.py        conditions in CEL over the names of the decoded log
    key_facts.py    what is worth telling of an exchange in one line, by API
    body_fields.py  the few fields of bodies that key facts look at
    bodies.py       both bodies as Kafka's JSON, read once; the error codes and topic names in them
    opening.py      what is inside bytes and records fields, with what earlier exchanges told
    payload_facts.py  that in a few words
    tls.py          what is known of a connection's TLS, as an object and in words
    escaping.py     strings from the wire made fit for a terminal
    times.py        times, durations and sizes as text
    styles.py       colours, and cutting to a width

    pcapng.py             a pcapng file's blocks
    synthetic_tcp.py      a conversation as packets
    event_packets.py      events as such packets, with comments
    rewriting.py          frames decoded, changed and encoded; credentials withheld in them
    record_rewriting.py   records fields likewise
    internal_records.py   which message is in a record of an internal topic
    anonymize.py          what --anonymize replaces, and what it lets stay, with reasons
    pseudonyms.py         keyed pseudonyms of the same length
    token_rewriting.py    SASL tokens without their secrets
    sticky_topics.py      the topics in the sticky assignors' user data

    tables/               what the tables hold: their contracts, and rows of events
    parquet.py            a directory of them

    metric_descriptions.py  every metric: name, type, help, labels
    metrics.py            these, with numbers, for Prometheus

Text is driven by Kafka's JSON of the bodies, in which credentials are already withheld; captures by the frames' objects.
"""

"""kproxy: what mitmproxy is to HTTP and Wireshark is to packets, for the Kafka wire protocol.

Rooms, in the order the bytes walk through them; each package's docstring says what is in it and what is not.

    errors      every exception kproxy raises on purpose, one tree
    protocol    what the bytes mean: facts, codec, headers, error codes, special values. No I/O, no clock
    session     one connection as a conversation: framing, pairing, SASL, topic ids, fetch sessions -> events. No I/O, no clock
    capture     files: pcap and pcapng, link layers, TCP reassembly, TLS with a key log
                -> the byte streams of both directions with their times
    output      events to people and machines: text lines and trees, the decoded log (JSON lines), captures, tables
    filters     what may see and change traffic: the contract, the chain, the built-in ones. No I/O, no clock
    config      what `kproxy run` is told: the file and its checks
    proxy       sockets: workers that forward, the supervisor above them, the analyzer beside them
    cli         one file per command: decode, api, run, check
    extract     how the facts file is made from Kafka's own jars; nothing at run time imports it

Imports go one way: errors <- protocol <- session <- capture | output | filters <- config <- proxy <- cli.
"""

__version__ = "0.1.0"

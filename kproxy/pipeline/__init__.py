"""The engine: byte streams of connections to sessions to events to outputs. One engine for files, taps, clusters and libraries.

    reading.py         read(): events of files in a program of one's own; decode_packets(), decode_flows(): in a task of a cluster
    run.py             Run: options in, sources read, events written to outputs; counts, damages and faults kept
    decoded_log.py     which kind of file it is; a decoded log line by line
    flow_reader.py     one flow of a capture: Kafka or not, which side is the client; its states are a table there
    division.py        the connections of a capture, divided among tasks that together give what one run gives
    sides.py           the client of a flow whose beginning was not captured
    tls_flow.py        a flow of TLS, decrypted; where its secrets come from
    connections.py     live connections, known to be Kafka; the limits on all of them together, and none can harm another
    late_names.py      holds events until the topics in them have names
    output.py          Output: what a destination of events is; how to add one
    line_output.py     lines of text or JSON
    pcapng_output.py   a capture, in order of time or as it comes
    table_output.py    rows of tables, for Parquet, DuckDB and Spark
    parquet_output.py  tables as files
    summary.py         counts, and the sentences that a decode ends with
    sink.py            bytes to a file or pipe
    rotating_file.py   bytes to a file in parts, whatever the disk does
    time_order.py      sorts more than memory holds

Theory of operation

    a file ───▶ read_flows ─▶ FlowEvents ─▶ LateNames ─┐
    packets ──▶ Flows ──────▶     "      ─▶    "      ─┼─▶ Run.write ─▶ Output, Output, ...
    a tap ────▶ Connections ───────────────────────────┤    (where, bodies)
    a decoded log ─────────────────────────────────────┘

A source is read by pulling: ``for _ in run.read(source)`` gives control back after each event, so that the caller can show
progress, or stop. A live source is pushed: ``connections = run.open_live(name)``, then ``connections.receive(...)``. Both end in
``Run.write(event)``: it evaluates the condition, reads the bodies of an exchange at most once for all outputs, and calls each
output. Nothing here waits, asks the time or opens a socket, and no module has state: two runs share nothing.

Seams

    Run(Options(where=..., keylog=..., contain=...), [output, ...])
        .read(Capture | DecodedLog)      -> Iterator[None]    to the end, or .interrupt()
        .read_flow_items(items)          -> Iterator[None]    reassembled flows from elsewhere
        .read_part(Capture, Division)    -> Iterator[None]    its share of the connections, in a process of its own
        .open_live(name)                 -> Connections       .open .receive .lose .end .close .close_all
        .damages .faults .interrupted .packets_passed_over
    FlowEvents(flow_items, ...)          -> Iterator[Event]
    Output: start_source, write, end, flush, close

Who owns which bytes, and what bounds them

    bytes                                  owner                       bound
    segments that came out of order        capture.Flows               capture.Limits
    of a flow that is not yet decided      FlowReader._pending         PROBE_SIZE
    of TLS records that are not complete   TlsFlow                     a record each way
    of frames that are not complete, and   Session                     session.Limits for each; for all of a live source
    requests that are not answered                                     Options.most_held: the largest connection is closed
    events that wait for topic names       LateNames                   HELD events, HELD_SIZE bytes
    events in an output                    the output                  a block (Sink, RotatingFile), RUN bytes (TimeOrder),
                                                                       a row group (parquet)

An exception inside one connection is a bug of kproxy: a session never raises for what bytes hold. Options.contain says whether it
ends the run or only that connection (counted in ``faults``). Exceptions of the disk end the run, but for a
RotatingFile, which counts them. OutputClosed (``| head``) ends it with success.

Where would I ...

    add an output      a class derived from output.Output, and where it is chosen: kproxy/cli/formats.py for ``kproxy decode
                       --format``, kproxy/proxy/analyzer/process.py for ``kproxy run``
    add a source       that ends: a method of Run beside read_flow_items. A live one: feed the Connections of ``run.open_live``
    call the decoder   in a Spark task: ``for event in decode_packets(packets, options)`` (reading.py) with all packets of each
                       connection, both directions, in the order of their times (group by the unordered pair of endpoints),
                       or ``decode_flows(items, options)`` where they are reassembled already. Options.keylog is a path that
                       the executor must be able to open
"""

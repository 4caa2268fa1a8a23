"""The engine that turns byte streams into events and writes events to outputs: one for files, live taps, Spark and libraries.

    reading.py         read(): events of files, for other programs; decode_packets(), decode_flows(): for tasks of a Spark cluster
    run.py             Run: options in, sources read, events written to outputs; counts, damages and faults kept
    decoded_log.py     tells captures and decoded logs apart; reads one, or many as one, line by line
    inputs.py          the files that names stand for: files, folders, patterns; which are read as one, which are copies
    flow_reader.py     one flow of a capture: Kafka or not, which side is the client; its states are a table there
    division.py        divides the connections of a capture among processes (``kproxy decode --jobs``)
    sides.py           finds the client of a flow whose beginning was not captured
    tls_flow.py        decrypts a TLS flow; knows where its secrets come from
    connections.pyx    live connections, known to be Kafka; limits for all together; a failure stays in its connection
    live_events.pyx    the events of a live source on their way to the outputs
    late_names.py      holds events until the topics in them have names
    output.py          Output: the interface of every destination of events, and how to add one
    line_output.py     lines of text or JSON
    pcapng_output.py   a capture file, in order of time or live
    span_output.py     trace spans, for OpenTelemetry
    table_output.py    rows of tables, for DuckDB, Spark and Parquet files
    summary.py         counts, and the sentences that a decode ends with
    sink.py            bytes to a file or pipe, or to a file in parts, which survives a full disk

Theory of operation

    a file ───▶ read_flows ─▶ FlowEvents ─▶ LateNames ─┐
    packets ──▶ Flows ──────▶     "      ─▶    "      ─┼─▶ Run.write ─▶ Output, Output, ...
    a tap ────▶ Connections ───────────────────────────┤    (where, bodies)
    a decoded log ─────────────────────────────────────┘

A file is pulled: ``for _ in run.read(source)`` returns control after each event, so that the caller can show progress or
stop. A live source is pushed: ``connections = run.open_live(name)``, then ``connections.receive(...)``. Both end in
``Run.write(event)``, which evaluates the condition, decodes the bodies of an exchange at most once for all outputs, and calls
each output. Nothing here waits, reads a clock or opens a socket, and no module has state: two runs share nothing.

Seams

    Run(Options(where=..., keylog=..., contain=...), [output, ...])
        .read(Input)                     -> Iterator[None]    to the end, or .interrupt(); see inputs.py
        .read_flow_items(items)          -> Iterator[None]    flows that the caller has reassembled
        .read_part(Capture, Division)    -> Iterator[None]    one process's share of the connections
        .open_live(name)                 -> Connections       .open .receive .lose .end .close .close_all
        .damages .faults .interrupted .packets_passed_over
    FlowEvents(flow_items, ...)          -> Iterator[Event]
    Output: start_source, write, end, flush, close

Who owns which bytes, and what bounds them

    bytes                                  owner                       bound
    segments that came out of order        capture.Flows               capture.Limits
    a flow not yet known to be Kafka       FlowReader._pending         PROBE_SIZE
    incomplete TLS records                 TlsFlow                     one record each way
    incomplete frames and                  Session                     session.Limits for each; for all of a live source
    unanswered requests                                                Options.most_held: the largest connection is closed
    events that wait for topic names       LateNames                   HELD events, HELD_SIZE bytes
    events in an output                    the output                  a block (Sink, RotatingFile), RUN bytes (TimeOrder),
                                                                       a row group (parquet)

A session never raises for any bytes, so an exception inside one connection is a bug in kproxy. Options.contain says whether it
ends the run or only that connection (counted in ``faults``). Disk errors end the run, except those of a RotatingFile, which
counts them. OutputClosed (``| head``) ends the run with success.

Where would I ...

    add an output      a class derived from output.Output, and where it is chosen: kproxy/cli/formats.py for ``kproxy decode
                       --format``, kproxy/proxy/analyzer/process.py for ``kproxy run``
    add a source       that ends: another method of Run, like read_flow_items. A live one: feed the Connections of
                       ``run.open_live``
    call the decoder   in a Spark task: ``for event in decode_packets(packets, options)`` (reading.py) with all packets of each
                       connection, both directions, in the order of their times (group by the unordered pair of endpoints),
                       or ``decode_flows(items, options)`` for flows reassembled elsewhere. Options.keylog is a path that
                       the executor must be able to open
"""

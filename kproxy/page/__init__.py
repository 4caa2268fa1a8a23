"""The page: exchanges in a browser. ``kproxy open SOURCE...`` serves it; the browser's part is in static/.

Where to look

    store.py      Store: which exchanges there are, which rows a filter and a sort give, one exchange with all its parts
    recorded.py   Recorded: the Store of captures and decoded logs, which are read while they are served
    tables.py     Tabled: the Store of directories of Parquet tables, which DuckDB queries where they are; KeptColumns in memory
    live/         Live: the Store of a running proxy, and the process that serves it
    columns.py    the columns of exchanges: name, type, unit, meaning, and SQL
    blocks.py     Blocks: lines and frames, compressed and bounded in bytes; the oldest are dropped or spilled to files
    filtering/    conditions in CEL and free text over the rows of a Store
    detail.py     one exchange in detail; two compared
    frame_tree.py the tree of a frame, with the place of each field in its bytes
    left_out.py   what is missing among the exchanges, and when
    activity.py   exchanges over time, latency as a heat map, groups
    findings.py   the analyses of kproxy report over a span of time, with the exchanges that findings name
    exporting.py  Selection: chosen exchanges as a file, or as a command for a terminal
    replaying.py  a selection replayed by kproxy replay, after its plan was shown
    work.py       Work: one question of a browser, which can be cancelled and has a time limit
    answers.py    the answer of each URL, help texts among them; security.py decides who may ask
    server.py     opens the Store for the sources that a person names, and serves the page

To add a column, add it to columns.py. To add an answer, write a function that takes a Store and a Work, and route it in
answers.py. Contents of records are withheld in one place: recorded.py and live/exchanges.py keep or show frames as WithoutRecords
(kproxy.output.rewriting) leaves them, unless --records or page.records is given.

Seams

URLs: ``/`` is the page, ``/page/static/NAME`` what it loads, ``/page/api/...`` JSON. An answer that is no 200 is
``{"error": "one sentence", "column": from 1 or null, "length": n or null}``.

    /page/help/TOPIC           a topic of the manual (kproxy.manual) as a page
    source                     what is open: name, version, live, editable, mayHaveEdits (whether kproxy may have changed some),
                               clientAddresses (of a running proxy: what to give clients as bootstrap address), token, instance
                               (of the process: exchange numbers restart with each process), exchanges (here), left (made room),
                               dropped (never came here, as there was no time for them), seen (the sum), share (which part of the
                               exchanges comes here now), fed (whether an analyzer is connected), bytes, mostBytes (in memory;
                               beyond these the oldest leave; 0: none leaves), spill (null, or about older exchanges in a
                               directory: directory, bytes, most, trouble: why none can be written there, or ""), firstNs,
                               lastNs, loading ({"done", "of"} in bytes, or null), columns, names (what a filter may name),
                               damages (sentences: what could not be read, or that the analyzer was started again and some may be
                               missing), unread (sentences: connections that are not Kafka, as of TLS without keys, and gaps),
                               narrowed (what the configuration has analyzed, as a sentence; "": all), generation (below), grown
                               (that a file has grown since it was read to its end, as a sentence, or "")
    exchanges?filter=&sort=[-]COLUMN&offset=&limit=&columns=a,b    without sort by number; of several sources by time
                               total, offset, generation, numbers, columns, rows; limit at most 500; texts: what the filter
                               searches for as text (filtering/parts.py), to be shown: a name with a slip is text
    position?number=&filter=&sort=   offset of an exchange, or null
    activity?filter=&by=api|client|topic|error&buckets=&fromNs=&toNs=
                               startsNs, series: name, exchanges, bytes, errors by bucket; twelve of them, then "others"
    heatmap?filter=&buckets=&fromNs=&toNs=   startsNs, latencyUs (upper bounds), counts[bucket][level]
                               Both also: leftOut (below), leftOutBy: exchanges left out by bucket
    groups?fromNs=&toNs=       groups: name, exchanges, clients (client ids), firstNs, lastNs, joined (whether a member joined
                               then; else all its members were there before); more: how many are not listed
    analyses                   list of id, title, severity, meaning, action, reference, finding, parameters
    analyses/ID?fromNs=&toNs=  the same with verdict, columns, rows, more, and numbers: the number of the exchange that each
                               row of a finding has as its example; null where rows have none; leftOut (below); uncertain: why
                               rows may be false, as exchanges are missing; else null
    compare?a=&b=              differences: side, path, a, b; more: whether there are others, beyond 5,000
    complete?text=&cursor=&of=filter|request|response
                               from, to, choices: text, meaning; places in UTF-16 units. Of a filter, or of the condition of a
                               breakpoint for requests or responses
    command?filter=&format=&fromNs=&toNs=
                               command; note: how to have the selection, where the command gives all exchanges; else "";
                               replay: the same for kproxy replay, or null of tables and decoded logs; of: null, or of
                               a running proxy the file that both read, which is the export of all exchanges as pcapng;
                               impossible: why, by formats that an export cannot have
    export?format=jsonl|pcapng|pcapng-anonymized|parquet&filter=&fromNs=&toNs=   a file; parquet as a zip of the directory
    replay/plan   POST {to: HOST:PORT, filter, fromNs, toNs (numbers or null), speed: "1", "2.5" or "max", createTopics}
                               plan: its id; text: what kproxy replay says it would send, create, write and delete. Only
                               ApiVersions and Metadata are sent. 400 of tables, decoded logs, and a running proxy
    replay        POST {plan: id}
                               Sends what that plan says, once. text: what kproxy replay says at its end; differs: whether
                               answers differ; interrupted. A request that is given up ends the replay
    events                     text/event-stream: "rows" with exchanges, left, dropped, seen, share, bytes, damages,
                               unread, narrowed, instance, generation, firstNs, lastNs, loading, spill
    exchanges/NUMBER           number, row, request, response, errors, records
                               SIDE: bytes (base64 of the frame with its size field; null where there are none), apart (whether
                               there are so many that they are asked for by themselves), size, cut (how many bytes of it
                               are not here) and why, trailing, tree, rendered, note. NODE: name, type, value, start, end,
                               children, more, note
    exchanges/NUMBER/request   the bytes of that side, as they are; also exchanges/NUMBER/response

leftOut is null where all exchanges of the span are here; else said and advice (sentences), sampled (whether exchanges are
missing between those that are here, not only before them), cut (whether the configuration leaves out ends of frames),
exchanges (how many there were between fromNs and toNs), here (how many of them are here), unseen (spans with fromNs and toNs
about which nothing is known). Counts, sums and rows are of the exchanges that are here.

What changes something is answered by the supervisor, where page.edits is set: kproxy.proxy.supervisor.stop_pages.

Types of columns: integer, number, text, truth, texts (a list), time (nanoseconds since the epoch, as a string). Integers beyond
2^53 are strings. A filter is CEL over the names of the decoded log (kproxy.output.jsonl), as of ``kproxy decode --where``;
text that is no CEL finds what holds it, alone or joined to CEL by ``&&`` (filtering/parts.py).

An exchange has a number, from 1, in the order in which exchanges were complete (of tables: in the order of the files). Numbers
are stable while a source is open; of a source that drops its oldest exchanges they begin with a higher one. ``generation`` grows
whenever rows came or left.

Needs DuckDB and pyarrow: ``pip install 'kproxy-kafka[page]'``. The supervisor of ``kproxy run`` does not import it.
"""

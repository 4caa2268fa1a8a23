"""Spark: decode captures and logs into tables on many machines, with the rows of ``kproxy decode --format parquet``.

    source.py       spark.read.format("kproxy") and readStream: one table of files, one file (or a share of its connections) a
                    partition; follow: files that appear in a folder, ingested
    ingest.py       files to Parquet, by cluster and day; what is there already is not read again. Small files, compressed ones
                    and logs many at a time, large captures through divided.py
    grouping.py     which files are one capture
    catalog.py      the output directory: each input file is in it completely or not at all; the quarantine
    writers.py      outputs that Spark writes: Parquet through Hadoop, Delta, Iceberg
    files.py        inputs: paths, patterns, object stores, files that only Hadoop reaches
    folders.py      the output directory as the driver sees it
    rows.py         one file to rows in one task; rows to Parquet files by table and day, or to chunks in an RDD; Spark's types
    divided.py      one large capture, in one file or many, on all executors, in the stages below; the shuffle through files of
                    the staging folder
    local.py        the cores of one machine in place of Spark, where the sources and the output need no Spark
    connections.py  one connection to rows; what connections must know of each other: names of topics, roles, numbers
    report.py       the analyses in DuckDB on the executors; sources.py: what Spark has to copy, of all or some days
    topic_view.py   a view of one topic: a typed column for each field of its values
    session.py      the Spark session or context of a job

Seams

    source.register(spark)
    ingest.ingest(context, inputs, output, options=..., cluster=...) -> Report
    divided.decode_divided(context, file, options, staging, parts)   -> Result, or Undividable
    rows.FileRows(path, name, options, share).read()                 -> (table, rows) ...

A large capture, stage by stage (divided.py). B is the size of its files, P the number of parts (128 MiB each), C its connections.

    stage     tasks  reads                    gives                                         memory of a task
    survey    P      its range of bytes       where packets begin and end, connections,     1 MiB of the file, 65,536 keys,
                                              times, interfaces, TLS secrets (KBs)          32 MiB of blocks, 57 bytes for
                                              blocks of up to 64 KiB of segments of one     each block
                                              connection, in files of the staging folder,
                                              with an index by hash: B + 36 bytes a packet
    settle    driver what the survey gave     parts that hold together, large connections   the surveys: 40 bytes for each
                                              by size, the rest by hash; a part that rests  part and connection in it
                                              on a wrong guess is surveyed again
    head      driver the first 32 MiB         names of topics, and which events wait        as kproxy decode
    decode    P      blocks, by connection    Parquet files, and what was learned           one block, one session, and a row
                     and first packet                                                       group a table
    commit    driver                          files to their places; numbers of connections a row group

The key of the shuffle is the unordered pair of endpoints, 12 bytes for IPv4. As the blocks of a connection come one after the
other, a connection may live as long as the capture: its session holds what is in flight, not what it has sent. A connection is
decoded by one task: it cannot be faster than that. Nothing is sorted but the index, so that nothing spills. The staging folder
needs room for B once more while a capture is read, unless that stays in place.

What connections tell each other. Since Kafka 3.1 requests name topics by id, and the response that tells the name is mostly on
another connection. The decode knows the names of the head, and reports ids whose names it lacked. If another connection learned
such a name before that packet, all connections are decoded again with all names; the shuffle's files are reused. Roles of
connections without SYN, and times that go back, come from the survey. So every event is read with what packets before it showed,
as in one run.

Why files in the staging folder. A data source with a grouped map (applyInArrow) holds a whole connection in memory. Spark's own
shuffle of sorted blocks (``sorted_by_spark``) is bounded, but reads every byte once more, after the survey, and copies it twice
through pickles and the JVM, which doubles the CPU of the decode. N tasks that each read the whole file and decode their own
connections need no shuffle, but N times the reading: that is what the data source does with the option ``partitions``, and what
suits compressed files. On one machine whose memory has room for the capture, even the copies are saved: only the places of
payloads are shuffled (``stays_in_place``).

Not divided, but read by one task: a single file with gzip or zstd (reading cannot begin in the middle), captures with IP
fragments (a fragment names no connection until its datagram is complete) and pcapng with packets without times. ``ingest``
says so, and reads files side by side.

A capture in many files. The connections in files tell which are one capture (grouping.py). Where it is large, its parts are
ranges of bytes of its files, one after the other, and a compressed file is one part. Files that overlap in time (of several
hosts) are read by each task as a MergedCapture, which orders their packets, and each task makes the rows of its share of the
connections: N tasks read all bytes N times, so large captures of several hosts are better ingested by time, an hour at a time.
In the catalog the first file has the rows of all, and they are replaced together.

Where it differs from ``kproxy decode``: with more than 32,768 open connections, that gives up the one that was silent longest
(``closed`` is "evicted"); here none is given up. Also, that waits for late names anywhere, here only in the first 32 MiB.

What it costs: ``python -m tests.bench.spark`` measures it. Without Spark, a core does at 1 GiB about what it does in kproxy
decode to Parquet (CPU, pairs on a busy machine): 0.90 to 1.23 where two cores divide the capture, of which the survey and the
head take 0.7 s for each GiB; 0.81 to 1.00 where one core reads it in one piece. Spark's JVM and Python
workers take 4 to 6 s of CPU more, more than kproxy decode takes for 1 GiB of large requests: with Spark, a core did 0.25 of
decode on 1 GiB, and 0.5 on 2 GiB. A report of all analyses of 8 GiB in tables takes 1.3 times the CPU of kproxy report on one
executor of one core, 1.7 on two, 2.3 on four: each executor's JVM takes 3 s, its Python 2.
Memory does not grow with the capture. For a cluster plan 1 GiB for the JVM of each executor and 0.5 GiB for each core. 10 TB a
day of large requests keep one core busy on average, of tiny requests ten, since rows cost more than bytes. Of a divided capture
each byte is read once, written to the staging folder, and read there; where it stays in place, it is read twice and not written.
Mapping the capture into memory instead costs more: the system takes 0.4 s for a GiB of small pages, and copies it in 0.2 s.

To add
    a table         nothing here: kproxy.output.tables makes the rows. Without a column of TIMES (rows.py), its rows
                    belong to the day of their exchange
    an option       Options in rows.py, Settings.read in source.py, kproxy/cli/spark.py
    an input        kproxy.pipeline.decoded_log.open_stream
"""

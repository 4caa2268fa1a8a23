"""Spark: captures and decoded logs to tables on many machines. The same rows as ``kproxy decode --format parquet``.

    source.py       spark.read.format("kproxy"): one table of files, one file (or a share of its connections) a partition
                    (partitions.py: its options, a partition's rows; folder_reader.py: new files; schemas.py: Spark's types)
    stream.py       files that appear in a folder, ingested
    ingest.py       files to Parquet, by cluster and day; what is there already is not read again
    catalog.py      the output directory: which file is in it, whole or not at all; the quarantine
    divided.py      one large capture on all executors: the stages below
    files.py        inputs: paths, patterns, object stores
    reading.py      small files, compressed ones and logs, many at a time; large captures through divided.py
    in_place.py     which captures stay where they are, instead of being copied into the staging folder
    targets.py      rows to their places: files that tasks have written, on a disk that all see
    by_spark.py     the same where Spark writes: chunks.py (rows in an RDD), writers.py (Parquet through Hadoop, Delta, Iceberg)
    folders.py      the output directory as the driver sees it; hadoop_files.py: inputs that only Hadoop reaches
    report.py       the analyses on Spark; sources.py: over what, narrowing.py: over which of its rows
    whole.py        one file to rows in one task, for the data source
    connection.py   one connection to rows, from blocks of its segments
    facts.py        what connections must know of each other: names of topics, roles, numbers
    head.py         the head of a capture, in one piece: which events wait for names
    shuffle.py      blocks of connections through files of the staging folder
    parts.py        rows to Parquet files by table and day

Seams

    source.register(spark)
    ingest.ingest(context, inputs, output, options=..., cluster=...) -> Report
    divided.decode_divided(context, file, options, staging, parts)   -> Result, or Undividable
    whole.read_rows(path, name, options, share)                      -> (table, rows) ...

A large capture, stage by stage (divided.py). B is its size, P the number of parts (128 MiB each), C its connections.

    stage     tasks  reads                    gives                                         memory of a task
    survey    P      the packet headers of    where packets begin and end, connections,     1 MiB of the file, 65,536 keys
                     its range of bytes       times, interfaces, TLS secrets (KBs)
    settle    driver what the survey gave     parts that hold together; a part that rests   the surveys: 40 bytes for each
                                              on a wrong guess is surveyed again            part and connection in it
    head      1      the first 32 MiB         names of topics, and which events wait        as kproxy decode
    scan      P      its range of bytes       blocks of up to 64 KiB of segments of one     32 MiB of blocks, 1 MiB of file
                                              connection: in all B + 36 bytes a packet
    shuffle   P      blocks into files of     an index by partition: large connections by   57 bytes for each block
                     the staging folder       size, the rest by hash
    decode    P      blocks, by connection    Parquet files, and what was learned           one block, one session, and a row
                     and first packet                                                       group a table
    commit    driver                          files to their places; numbers of connections a row group

The key of the shuffle is the unordered pair of endpoints, 12 bytes for IPv4. As the blocks of a connection come one after the
other, a connection may live as long as the capture: its session holds what is in flight, not what it has sent. A connection is
decoded by one task: it cannot be faster than that. Nothing is sorted but the index, so that nothing spills. The staging folder
needs room for B once more while a capture is read, unless that stays in place.

What connections tell each other. Since Kafka 3.1 requests name topics by id, and the response that tells the name is on
another connection, mostly. The decode knows the names of the head, and reports those that a connection asked for in vain. If
another connection learned one of them before that packet, all are decoded again with all names: the shuffle's files are still
there, so that this costs one decode more. Roles of connections without SYN, and times that go back, come from the survey. So
every event is read with what was shown by packets before it, as in one run.

What was compared. (a) A data source whose partitions are ranges of bytes and whose rows are segments, then a grouped map
(applyInArrow): holds a whole connection in memory. (b) Spark's shuffle of sorted blocks (``sorted_by_spark``): bounded, as
the sort spills, but every byte is pickled twice and goes through the JVM twice, twice the CPU of the decode. (c) Files in the
staging folder, which all tasks see anyway: two copies, and what was written serves a second round, too. (d) Each of N tasks
reads the whole file and decodes its own connections: no shuffle, N times the reading. That is what the data source does with
the option ``partitions``, as a data source has no shuffle, and what suits compressed files. (e) As (c), but the payloads stay
in the capture and only their places are shuffled; the decode reads it here and there, from memory as fast as in order. (e) is
used on one machine, for a capture that its memory has room for (in_place.py), (c) on a cluster.

Not divided, read by one task: gzip and zstd (they have no places to begin at), captures with IP fragments (a datagram belongs
to no connection until it is whole) and pcapng with packets without times. ``ingest`` says so, and reads files side by side.

Where it differs from ``kproxy decode``: that gives up the connection that was silent longest when more than 32,768 are open
(``closed`` is "evicted"); here none is given up. It waits for late names at any place, here in the first 32 MiB.

What it costs. ``python -m tests.bench.spark`` on two cores of an idle machine, in CPU seconds of all processes, on captures of a
generated cluster (tests/bench: 96 long connections, thousands of short ones, MTU 1500, 12 KB an exchange), with route (e):

    capture     ingest on local[2]     largest JVM, worker    kproxy decode --format parquet    ratio
    1024 MiB     11.2 s (JVM 3.8)      253 MiB, 134 MiB         4.0 s, one process              0.36
    2048 MiB     16.4 s (JVM 4.2)      258 MiB, 136 MiB        10.0 s                           0.61
    4096 MiB     30.2 s (JVM 5.7)      265 MiB, 136 MiB        18.1 s                           0.60
    8192 MiB     52.6 s (JVM 6.2)      274 MiB, 142 MiB        40.3 s                           0.77

About 5 s are the start of the JVM and of the Python workers; beyond the first GiB a core does 0.88 of what it does in kproxy
decode, and memory does not grow. The JVM takes 0.3 s a further GiB, since bytes go past it: its flags win little but its start,
and another collector (-XX:+UseSerialGC) or one compiler thread not even that (3.4 to 4.4 s instead of 3.6, under load).
Of 512 MiB (one process, CPU seconds on a machine with much else to do) the survey takes 0.25, the head 0.07, the scan 0.75 with
copies and 0.33 in place (e), the reading of blocks 0.12 and 0.22, and the decode about 4: (e) saves some 0.6 s a GiB, and the
room for B. Most of what copies take is the kernel's, for pages of the staging folder that were never used before. In turns at
load 32 to 48, which makes all of it slower, 1 GiB took 20.0 and 21.3 s in place, 20.9 copied, and 9.8 in kproxy decode: there
the start and the noise are larger than the difference. With Spark's own shuffle (b) a further GiB took 36 s.

10 TB a day. 10 TB are 9,300 GiB; at 6.9 s a GiB, the dearest that was measured, and 0.6 s for copies, that is 70,000 CPU seconds:
0.8 cores that are never idle. Sized for a busy hour with three times the mean, and half of it kept free: 5 cores, as two
executors of three. Of memory 1 GiB for the JVM of each executor, and 0.5 GiB for each core's Python worker: 2.5 GiB an executor.
Traffic of small requests costs more, because rows cost, not bytes: at the 17 MB/s that kproxy decode has for connections of a
dozen requests (tests/bench, shape "tiny"), 10 TB are 590,000 s for it and about 800,000 here, or 10 cores at the mean and 60
for that busy hour.

The network: each byte is read twice (survey, scan), written to the staging folder once and read again: 4 x 10 TB a day are
0.46 GB/s at the mean, 1.4 GB/s in the busy hour, of which half is the staging folder's. Where captures are rotated below 256
MiB no capture is divided: then a byte is read once, and nothing is staged but rows. The tables of the capture above take 1 %
of its size.

To add
    a table         nothing here: kproxy.output.tables makes the rows. If it has no column of TIMES (parts.py), its rows go by
                    the day of their exchange
    an option       Options in whole.py, Settings.read in partitions.py, kproxy/cli/spark.py
    an input        kproxy.pipeline.decoded_log.open_stream
"""

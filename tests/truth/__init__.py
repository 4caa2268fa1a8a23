"""Workloads whose truth was chosen before their packets were captured, and a scorer that holds ``kproxy report`` to it.

    python -m tests.truth make [-o FOLDER] [NAME...]    run workloads, by default all: their captures and manifests. Root only;
                                                        --seed N draws what they leave open: libraries, releases, rates, waits
    python -m tests.truth score [FOLDER]                recall and precision of each analysis and severity, and each wrong answer
    python -m tests.truth coverage [FOLDER...]          how many incidents and look-alikes of each analysis the manifests have
    python -m tests.truth list                          what there is

    network.py      a bridge with a namespace for each host, so that brokers and clients have addresses; dumpcap on the bridge
    distance.py     a program that makes the way to a host long
    brokers.py      clusters of any release since 0.8.2 on these hosts; may be killed, stopped, paused
    client.py       a client in a process of its own, of librdkafka.py, kafka_python.py or aio_kafka.py; job.py: what they
                    share; Client.java: Java's, Modern.java: roles that are new there; go/: franz-go and sarama
    Streams.java    a job of Kafka Streams; Connect's workers and MirrorMaker are started from their own jars
    lab.py          Lab: what a workload is written with. Writes down what it did and what clients reported
    draws.py        what a seed decides of a workload: a run that its author has not seen
    healthy.py      workloads about which nothing critical, and at most one warning, may be said
    incidents.py    workloads in which something goes wrong, and look-alikes in which it does not; rare.py, harm.py: more of them
    unusual.py      more healthy workloads, of what the others do not have
    unlike.py       healthy workloads of clients and shapes that the others do not have, and look-alikes of a dozen incidents
    everyday.py     more look-alikes: what goes on every day, and captures that show a part of what happened
    operations.py   incidents of operations: old brokers, wrong addresses, requests refused for good, partitions without a leader
    oversights.py   what nobody thought of: one address for all brokers, settings that a tool takes away, no controllers
    misuse.py       incidents of wrong use and of settings that do not fit together
    unreached.py    addresses at which clients get no connection, and connections without a byte that mean nothing
    nights.py       what wakes people at night: what changed under clients, ways too long, keepers that are gone
    notices.py      what is noted rather than warned of: three incidents and three look-alikes in one workload
    replicas.py     missing replicas, leaders out of balance, records of share groups that are delivered again
    applications.py incidents of groups, transactions, share groups, Streams and Connect, and look-alikes of these
    threes.py       three incidents and three look-alikes of analyses for which the others have fewer
    manifest.py     Manifest, Truth: what a workload wrote down
    score.py        compares reports with manifests

The manifest is written by the workload, from what it chose and what clients reported, never by kproxy. A statement of a report
that no Truth covers is wrong; a Truth with ``must`` that no statement covers is missed.

To add a workload: a function in healthy.py or incidents.py with ``@workload(...)``, or a variant of one (another library, another
release, another protocol of groups); ``lab`` does things at times, and
``lab.expect(analysis, at=..., column=value)`` says what is true because of them; ``lab.allow`` what may be said, too.
"""

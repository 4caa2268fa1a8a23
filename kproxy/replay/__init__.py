"""`kproxy replay`: send the requests of a capture to another cluster, and report where its answers differ from the recorded ones.

Reading (no network)

    recording.py       read_recording(): the requests of captures in the order of their times, and what the answers showed
    selection.py       reason_not_sent(): which requests are not sent: logins, requests between brokers
    effects.py         Effects: what requests would create, write, change and delete, by Kafka's names
    automatic_topics.py  AutomaticTopics: which topics brokers create by themselves for requests

Between the recorded cluster and the new one

    identifiers.py     which fields hold ids that a cluster assigns, found in the facts
    identities.py      Identities: recorded id -> the new cluster's; replaces them in requests
    alignment.py       which element of a recorded array belongs to which of the new one
    answered_ids.py    learns ids from the two answers to a request
    producer_ids.py    producer ids and epochs in the headers of record batches
    versions.py        the version to send a request at, and what that would lose
    share_sessions.py  share sessions, whose requests have epochs in turn
    reshaping.py       requests that ask for one thing in old versions and for several in new ones
    joining.py         members from before the capture, which join as new members
    generations.py     members that were in one generation of a group are in one again, with the recorded assignments
    offsets.py         what to add to recorded offsets where a log of the new cluster ends at another one
    fetch_sessions.py  incremental fetch sessions, which the new broker numbers for itself

The new cluster

    cluster.py         Cluster: its addresses, nodes and versions; which recorded broker is which of its nodes
    link.py            Link: one connection, pipelined; answers in order, within bounds
    preparing.py       creates topics and gets producer ids that requests need

The way of a request, in turn

    player.py          Player: takes each request through the following steps
    order.py           Order: when it may be sent: its time, and the answers that came before it
    syncing.py         SyncGroup, which brokers hold until the leader's request has arrived
    rewriting.py       Rewriter: its ids, sessions and version replaced, encoded for the new cluster
    routing.py         Router: which node it goes to: the new cluster's leaders and coordinators
    connections.py     Connections: sends it on the link that stands for its recorded connection, and receives its answer
    repeating.py       Repeating: whether it is sent again, as its client would have done
    answers.py         Answers: learns ids from both answers, then compares them
    learned.py         Learned: what is known so far of both clusters; rewriting reads it, answers add to it
    result.py          Result: what became of each request, in counts and examples
    left_open.py       LeftOpen: transactions that were not ended, members that did not leave; also of an interrupted replay

Comparing

    left_out.py        which fields are not compared, by class and why
    comparing.py       compare(): two answers -> differences by field
    explaining.py      explain(): why an answer differs, in a sentence
    assigned.py        the partitions that heartbeats assign to members
    fetched.py         the records read from each partition, over all Fetch answers

Before and after

    plan.py            Plan: a recording before a cluster: what is sent, what is not and why
    report.py          plan and result as text and JSON
    left_open_report.py  what a replay left open, likewise

Seams

    recording = read_recording(paths, where=..., keylog=...)      -> Recording: .requests, .nodes, .topics, .damages
    cluster = await Cluster.ask(address, tls, patience)           -> Cluster; ApiVersions and Metadata, nothing else
    plan = make_plan(recording, cluster)                          -> Plan: .sent, .unsent, .effects, .missing_topics
    player = Player(plan, options); await player.play()           -> Result: .outcomes, .differences, .left_out

A request is decoded when it is planned and again when it is sent; nothing decoded is kept. Bytes of a request in which no id
was replaced, at its own version, leave as they were recorded. A request goes through these states:

    planned ─▶ waiting (its time; answers recorded before it) ─▶ sent ─▶ answered ─▶ learned from ─▶ compared
                   └─▶ not sent (its version cannot carry it)    ▲  │ └─▶ no answer (closed, or timeout)
                                                                 └──┘ sent again while the cluster is not ready

Requests are sent again where a client would have done so: the new coordinator or leader is not ready, and the recorded one was.
Of Produce only where nothing was appended, and nothing else is sent meanwhile, so that records keep their order.

Bounds: MOST_HELD bytes of recorded frames, one connection for each recorded connection and node while it has requests
left, MOST_IN_FLIGHT requests, a timeout for each answer, MOST_ANSWER bytes of each, MOST_EXAMPLES of each difference.

To add

    an id that clusters assign     kind_of() in identifiers.py, where no entity type of the facts says it
    a new API                      a line in protocol/api_judgements.txt; if it changes something, EFFECTS in effects.py
    a reason of a difference       a rule in explaining.py, the narrower ones first
    a field that is not compared   left_out.py, in a class with a reason

One login is made on every connection to the new cluster, with the credentials given for it; logins of the recording are not sent.
"""

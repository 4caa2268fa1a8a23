"""`kproxy replay`: send the requests of a capture to another cluster, and report where its answers differ from the recorded ones.

Before the first request

    recording.py    read_recording(): the requests of captures in the order of their times, and what the answers showed
    plan.py         Plan: what is sent, what is not and why
    effects.py      Effects: what requests would create, write, change and delete, by Kafka's names
    cluster.py      Cluster: its addresses, nodes and versions; Link: one connection, pipelined, within bounds
    preparing.py    creates topics and gets producer ids that requests need; where logs end

The way of a request

    player.py       Player: when each request is sent, whether it is sent again, and what becomes of its answer
    learned.py      Learned: what is known so far of both clusters; Rewriter reads it, Answers adds to it
    identities.py   recorded ids and the new cluster's
    groups.py       members that join, and generations
    sessions.py     fetch sessions and share sessions
    versions.py     the version to send a request at, and what that would lose
    connections.py  which node it goes to, on which connection

Its answer

    comparing.py    compare(): two answers -> differences by field
    explaining.py   explain(): why an answer differs, in a sentence
    result.py       Result: what became of each request, in counts and examples; what is left open
    report.py       plan and result as text and JSON

Seams

    recording = read_recording(paths, where=..., keylog=...)      -> Recording: .requests, .nodes, .topics, .damages
    cluster = await Cluster.connect(address, tls, patience)           -> Cluster; ApiVersions and Metadata, nothing else
    plan = make_plan(recording, cluster)                          -> Plan: .sent, .unsent, .effects, .missing_topics
    player = Player(plan, options); await player.play()           -> Result: .outcomes, .differences, .left_out

A request is decoded when it is planned and again when it is sent; nothing decoded is kept. Bytes of a request in which no id
was replaced, at its own version, leave as they were recorded.

Bounds: MOST_HELD bytes of recorded frames, one connection for each recorded connection and node while it has requests
left, MOST_IN_FLIGHT requests, a timeout for each answer, MOST_ANSWER bytes of each, MOST_EXAMPLES of each difference.

To add

    an id that clusters assign     kind_of() in identities.py, where no entity type of the facts says it
    a new API                      a line in protocol/api_judgements.txt; if it changes something, EFFECTS in effects.py
    a reason of a difference       a rule in explaining.py, the narrower ones first
    a field that is not compared   LeftOut in comparing.py, in a class with a reason

One login is made on every connection to the new cluster, with the credentials given for it; logins of the recording are not sent.
"""

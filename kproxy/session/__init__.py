"""One connection as a conversation: bytes of both directions with their times in, events out. No I/O, no clock.

    events.py       Direction, Frame, Exchange and the other things a session can say
    framing.py      FrameBuffer: cuts one direction into frames, whatever the chunks
    session.py      Session: pairs requests with responses, follows SASL, survives gaps and mid-stream starts
    recognise.py    what the first bytes are when they are not Kafka: TLS, HTTP, ... said in words
    cluster.py      ClusterView: what connections to one cluster have shown: topic ids, brokers, API versions; bounded
    fetch_session.py  incremental fetch sessions (KIP-227), so that a Fetch can be read in full

Seams

    session = Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092", cluster=ClusterView(), limits=Limits())
    session.receive(Direction.REQUEST, data, at) -> list[Event]    bytes as they came, in order; *at* in ns since the epoch
    session.gap(Direction.RESPONSE, size, at)    -> list[Event]    that many bytes are missing (None: nobody knows how many)
    session.end(Direction.REQUEST, at)           -> list[Event]    that side said it is done (FIN)
    session.close(at)                            -> list[Event]    nothing more will come: what is unanswered is told now

A frame owns its bytes: ``Frame.data`` is what followed the size field, and whoever wants JSON or objects asks
``frame.message`` to read ``frame.data`` from ``frame.body_start``. A session never raises for what the bytes say.
"""

"""What may see and change traffic: the contract, the chain that keeps it, and one file per built-in filter. No I/O, no clock.

    contract.py             Filter, Request, Response, the verdicts, AddressMap, Want: what the author of a filter reads
    chain.py                Chain: which frames its filters want; runs a held frame or a tail through them
    passage.py              Passage: one held frame, from filter to filter
    loading.py              a filter by dotted path or by name (entry point group ``kproxy.filters``)
    addresses.py            where the facts have broker addresses in responses
    head.py                 the head of a response, up to its last address, rewritten to any size
    tail.py                 the tail of a response, from its first address on, rewritten to the same size
    rewrite_addresses.py    built in: the proxy's addresses in place of the brokers'; what cannot be mapped is withheld
    narrow_api_versions.py  built in: ApiVersions offers no version that a required filter could not read

A filter, whole; ``use: mine:TopicPrefix`` and ``with: {prefix: team-a.}`` in the configuration make it

    class TopicPrefix(Filter):  # topics are made under one prefix only
        requests = (19,)  # CreateTopics

        def __init__(self, prefix: str) -> None:
            self.prefix = prefix

        def on_request(self, request: Request) -> Verdict:
            if all(topic.name.startswith(self.prefix) for topic in request.message.topics):
                return Forward()
            return Close(f"a topic outside of {self.prefix}")

What is held for a filter, and what bounds it

    API, version and direction choose a Want; the size is only a bound. ``Filter.wants`` is called when the chain is made:
    HOLD collects the whole frame, HEAD and TAIL only the beginning or the end of a response, PASS nothing. Among several
    filters HOLD wins over HEAD and TAIL, and they over PASS. REFUSE is the chain's own: a required filter cannot read that
    version. A held frame is at most limits.held_frame_size; above it, each filter that wants it held and cannot do with a
    part (``Filter.wants_of_large``) has a fault, and ``Chain.when_too_large_to_hold`` decides. A head is at most 4 MiB, a tail
    1 MiB; a longer one closes the connection, also if all filters fail open.
    One frame a direction is held, as the direction reads no further until there is a verdict.
    kproxy.proxy.forwarding has the buffers.
    A filter gets a message of its own, decoded from the frame: it lives until the verdict, or as long as the filter keeps it.

What is true of Kafka and what is promised to a filter

* A connection carries requests one way and responses the other, in order: responses come in the order of their requests
  (Kafka's protocol guide, "Network"). Clients pipeline; a Produce with acks=0 is never answered.
* A filter is made once per cluster and worker, and called from one thread. What belongs to one connection it keeps in
  ``connection.state``, a dict for each connection, under its own name.
* Only frames of the APIs it wants are held and decoded for it; everything else is cut through, and leaves as it came.
* Frames keep their order. While an ``async`` verdict is awaited the direction reads no further, for at most
  ``Filter.timeout`` seconds.
* A message may be changed in place and returned in ``Replace``; unknown tagged fields survive. A frame that no filter
  replaced leaves byte for byte as it came.
* A fault (an exception, a return value that is no verdict, a timeout, a frame that cannot be decoded) is logged and counted.
  If the filter ``fails_open`` the frame goes on as it came, else the connection is closed: a policy cannot be bypassed by
  breaking it. A fault in ``on_head`` is treated likewise. A fault in ``on_tail`` closes nothing, as the rest
  of the response has been sent: the addresses in the tail are withheld.
* Every filter gets a message of its own: what it changes without ``Replace`` no other filter sees.
* A response made by a filter (``Reply``) goes through the filters that its request has passed, as a broker's would.
* An API or version that is not in the facts passes untouched and counted, unless a ``required`` filter wants that API: then
  ApiVersions is narrowed to the versions in the facts, and a client that sends such a frame all the same is disconnected.

Seams

    chain = Chain(filters, wait=asyncio.wait_for)   filters in order; requests meet them first to last, responses last to first
    chain.wanted(direction, api_key, api_version) -> Want.PASS | HOLD | HEAD | TAIL | REFUSE
    chain.table(direction)                       -> {(api_key, api_version): Want} of all that the facts know
    chain.unknown(direction, api_key)            -> Want of other versions and other keys
    chain.when_too_large_to_hold(direction, api_key, api_version)
                                                 -> PASS | HEAD | TAIL | REFUSE, for a HOLD frame above limits.held_frame_size
    chain.on_request(connection, frame)          -> Outcome or an awaitable; *frame* is the whole frame, size field included
    chain.on_response(connection, request, frame) -> Outcome or an awaitable; *request* is the RequestFacts of its request
    chain.on_head(connection, request, head)     -> bytes of any size, or None to close: the head, size field included
    chain.tail_start(api_key, api_version)       -> the field where the tail for on_tail begins; None: the tag section
    chain.on_tail(connection, request, tail)     -> bytes of the same size: the tail of a response, from its first address on

To add a built-in filter: a module here with a class derived from Filter, its entry point in pyproject.toml
(``kproxy.filters``) and in BUILT_IN of loading.py. To add a verdict: contract.py, and Passage._apply.
"""

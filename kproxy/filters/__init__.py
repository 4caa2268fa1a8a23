"""What may see and change traffic: the contract, the chain that keeps it, and one file per built-in filter. No I/O.

    contract.py           Filter, Request, Response, the verdicts, AddressMap: what the author of a filter reads
    chain.py              Chain: which frames somebody wants; a frame through the filters; who fails open, who closed
    passage.py            Passage: one frame's way through the filters that want it
    loading.py            a filter by dotted path or by name (entry point group ``kproxy.filters``)
    addresses.py          where the facts carry broker addresses; finding and replacing them in any response
    tail.py               the tail of a response that is held from its first address on, written anew to the same size
    rewrite_addresses.py  clients are told the proxy's addresses; what cannot be mapped is withheld
    narrow_api_versions.py  ApiVersions offers no version that a required filter could not read

A filter, whole; ``use: mine:TopicPrefix`` and ``with: {prefix: team-a.}`` in the configuration make it

    class TopicPrefix(Filter):  # topics are made under one prefix only
        requests = (19,)  # CreateTopics

        def __init__(self, prefix: str) -> None:
            self.prefix = prefix

        def on_request(self, request: Request) -> Verdict:
            if all(topic.name.startswith(self.prefix) for topic in request.message.topics):
                return Forward()
            return Close(f"a topic outside of {self.prefix}")

What is true of Kafka and what is promised to a filter

* A connection carries requests one way and responses the other, in order: responses come in the order of their requests
  (Kafka's protocol guide, "Network"). Clients pipeline; a Produce with acks=0 is never answered.
* A filter is made once per cluster and worker, and called from one thread. What belongs to one connection it keeps in
  ``connection.state``, a dict of its own.
* Only frames of the APIs it asked for are held and decoded on its account; everything else is cut through, and leaves as it came.
* Frames keep their order. While an ``async`` verdict is awaited the direction reads no further, for at most
  ``Filter.timeout`` seconds.
* A message may be changed in place and returned in ``Replace``; unknown tagged fields survive. A frame that no filter
  replaced leaves byte for byte as it came.
* A fault (an exception, a verdict that is none, a timeout, a frame it cannot be given) of a filter that ``fails_open`` is
  logged and counted and the frame goes on as it came; of one that does not, the connection is closed, as nobody may slip
  past a policy by breaking it.
* Every filter is given a message of its own: what it changes without saying ``Replace`` no other filter sees.
* A response that a filter gives itself (``Reply``) meets the filters that its request has passed, as a broker's would.
* An API or version the facts lack passes untouched and counted, unless a ``required`` filter has asked for that API: then
  ApiVersions is narrowed to what can be read, and a client that sends such a frame all the same is disconnected.

Seams

    chain = Chain(filters, wait=asyncio.wait_for)   filters in order; requests meet them first to last, responses last to first
    chain.wanted(direction, api_key, api_version) -> Want.PASS | HOLD | TAIL | REFUSE
    chain.table(direction)                       -> {(api_key, api_version): Want} of all that the facts know
    chain.unknown(direction, api_key)            -> Want of other versions and other keys
    chain.when_too_large_to_hold(direction, api_key, api_version)
                                                 -> PASS | TAIL | REFUSE, for a HOLD frame above limits.held_frame_size
    chain.on_request(connection, frame)          -> Outcome or an awaitable; *frame* is the whole frame, size field included
    chain.on_response(connection, request, frame) -> Outcome or an awaitable; *request* is the RequestFacts of its request
    chain.tail_start(api_key, api_version)       -> the field where the end begins that on_tail is given; None: the tag section
    chain.on_tail(connection, request, tail)     -> bytes of the same size: the tail of a response, from its first address on
"""

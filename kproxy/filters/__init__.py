"""What may see and change traffic: the contract, the chain that keeps it, and one file per built-in filter. No I/O, no clock.

    contract.py             Filter, Request, Response, the verdicts, AddressMap, Want: what the author of a filter reads
    chain.py                Chain: which frames its filters want; runs a held frame or a tail through them
    error_responses.py      the response in which everything that a request asks for has an error, for every API and version;
                            partitions of a Produce request refused while the others go on
    passage.py              Passage: takes one held frame from filter to filter; how faults of filters are counted
    reference.py            the pages of `kproxy filters`, made from options and docstrings
    loading.py              a filter by dotted path or by name (entry point group ``kproxy.filters``)
    addresses.py            where the facts have addresses of brokers in responses; the head and the tail of a response
    rewrite_addresses.py    built in: the proxy's addresses in place of the brokers'; what cannot be mapped is withheld
    identify.py             built in: who a client is (SASL), its software, topics by their ids; for filters that need these
    named_resources.py      what messages name: resources of requests, topics of any message; error codes of responses
    audit.py                built in: who did what, one JSON line for each request of the control plane
    conditions.py           conditions in CEL over a request, its connection and what it names
    deny.py                 built in: requests that a rule forbids get Kafka's error and do not reach a broker
    large_records.py        which records are changed in a thread
    matching.py             names and patterns of options, and the rules that they choose by topic
    single_topic.py         the topic of a frame that has only one, by its first bytes
    fetching.py             Fetch requests ask for no more than can be held, if a filter needs complete responses; which fetch
                            sessions were opened under the rules in use, and what they fetch
    fetched_records.py      records of Fetch and ShareFetch responses that a filter changes where they lie, some batches at a time
    headers.py              built in: adds record headers to Produce: origin, client id, principal, trace
    encrypted_fields.py     fields of values for encrypt
    encrypt.py              built in: encrypts values on their way to brokers, and decrypts them for those that fetch them
    mask.py                 built in: hides fields of records from those that fetch them
    validate.py             built in: refuses, marks or reports records that their schemas do not describe
    dead_letters.py         DeadLetters: copies of refused records, written to another topic in the same Produce request
    json_masks.pyx          hides the values at some paths in JSON
    topic_prefix/           built in: several tenants on one cluster, each with topics, groups and transactional ids of its own
    bounded_set.py          one process's part of a set that the filters of a cluster share in all workers
    turns.py                verdicts that take long, made in steps between which other connections go on
    breakpoints/            built in: a person stops and changes messages in the page; put before all others if page.edits is set
    faults/                 built in: faults on purpose, so that tests see what clients do when brokers fail
    telemetry/              built in: what clients measure of themselves (KIP-714), at /metrics
    throttle.py             built in: bytes and requests per second by client, principal, topic, as brokers do with quotas
    narrow_api_versions.py  built in: ApiVersions offers no version that a required filter could not read

A guide: write a filter in five steps

1.  Say what it wants: the API keys of ``requests`` and ``responses`` (`kproxy api` lists them). Only these frames are held and
    decoded; all others pass as if there were no filter.
2.  Declare its options (kproxy.options). Mistakes in the configuration are reported with their line, and `kproxy filters NAME`
    shows the options. A class without ``Options`` gets what is under ``with`` as plain keyword arguments.
3.  Return a verdict: Forward, Replace(message), Reply(response), Close(reason), Truncate(size), Silence(); or an
    awaitable of one. ``error_response`` of error_responses.py makes the response in which each topic, partition or group asked
    for has an error. Name the APIs that it answers itself in ``answers``: audit has to be listed before it.
4.  Take time, waiting and files from ``self.runtime`` (contract.Runtime). Keep what a response will need in ``request.kept``
    (it is ``response.request.kept`` then), and what belongs to a connection in ``connection.state``.
5.  Say what a fault means: ``fails_open = True`` if it only observes; otherwise the request is answered with an error, or the
    connection is closed.

    # the module my_filters
    from typing import Annotated

    from kproxy.filters.contract import Filter, Forward, Reply, Request, Verdict
    from kproxy.filters.error_responses import error_response
    from kproxy.options import Options, text

    class TopicNameOptions(Options, frozen=True):
        prefix: Annotated[str, text("What names of new topics begin with.")]

    class TopicNames(Filter):
        '''Let only topics be created whose names begin with a prefix.'''

        requests = (19,)  # CreateTopics
        Options = TopicNameOptions

        def __init__(self, options: TopicNameOptions) -> None:
            self.prefix = options.prefix

        def on_request(self, request: Request) -> Verdict:
            if all(topic.name.startswith(self.prefix) for topic in request.message.topics):
                return Forward()
            return Reply(error_response(request, 44, f"names begin with {self.prefix}"))  # POLICY_VIOLATION

    # kproxy.yaml
    filters:
    - use: my_filters:TopicNames
      with: {prefix: team-a.}

    While you write it, run `kproxy run -c kproxy.yaml --reload-filters` with PYTHONPATH set: a change of the module is in use
    half a second later for all connections; one that does not load is logged with its file and line, and the one before stays.
    tests/filters/test_loading.py runs this example.

What is held for a filter, and what bounds it

    API, version and direction choose a Want; the size is only a bound. ``Filter.wants`` is called when the chain is made:
    HOLD collects the whole frame, HEAD and TAIL only the beginning or the end of a response, PASS nothing. Among several
    filters HOLD wins over HEAD and TAIL, and they over PASS. REFUSE is the chain's own: a required filter cannot read that
    version. A held frame is at most limits.held_frame_size; above it, each filter that wants it held and cannot do with a
    part (``Filter.wants_of_large``) has a fault, and ``Chain.when_too_large_to_hold`` decides. Fetch requests are changed so that
    their responses fit (fetching.py). A head is at most 4 MiB, a tail 1 MiB; a longer one closes the connection, also if
    all filters fail open. In each direction one frame is held, as nothing more is read until there is a verdict.
    kproxy.proxy.forwarding has the buffers.
    A filter gets a message of its own, decoded from the frame: it lives until the verdict, or as long as the filter keeps it.
    If the header and the connection are enough to decide whether it wants a frame, such as the client, it overrides
    ``Filter.wants_frame``, which is called before the frame is decoded; ``Filter.wants_topic`` if the topics are.
    A Produce request or Fetch response with one topic, which no filter wants, is not held at all.

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
  If the filter ``fails_open`` the frame goes on as it came. Else the client gets the error ``fault_error`` in place of what it
  waits for, or the connection is closed where no response can say so: a policy cannot be bypassed by breaking it. A fault in
  ``on_head`` closes the connection, unless the filter fails open. A fault in ``on_tail`` closes nothing, as the rest
  of the response has been sent: the addresses in the tail are withheld.
* Every filter gets a message of its own: what it changes without ``Replace`` no other filter sees.
* A response made by a filter (``Reply``) goes through the filters that its request has passed, as a broker's would.
* An API or version that is not in the facts passes untouched and counted, unless a ``required`` filter wants that API: then
  ApiVersions is narrowed to the versions in the facts, and a client that sends such a frame all the same is disconnected.

The order of filters

    Requests meet filters first to last, responses last to first. `kproxy check` says what cannot be right (loading.misplaced).
    breakpoints   before all others; kproxy puts it there
    topic_prefix  before those that know topics by their ids and so use brokers' names: audit of topics, deny by topic, mask,
                  headers and throttle of some topics
    audit         before what answers requests itself, or makes another response of the broker's: deny, faults, telemetry that
                  terminates, mask (if Fetch is audited). What topic_prefix refuses is only in the log of one before it
    throttle      before deny a refused request counts for the rate, as with quotas of brokers; behind it, it does not
    faults        after topic_prefix. Last it is like a broker that fails, and the others see its errors; before deny, it fails
                  what deny would refuse
    encrypt       after validate, mask and deny by record, which need plain values
    others        anywhere

Seams

    chain = Chain(filters, wait=asyncio.wait_for)   filters in order; requests meet them first to last, responses last to first
    chain.wanted(direction, api_key, api_version) -> Want.PASS | HOLD | HEAD | TAIL | REFUSE
    chain.table(direction)                       -> {(api_key, api_version): Want} of all that the facts know
    chain.wanted_unkept(api_key, api_version)    -> Want of a response to whose request on_request gave no RequestFacts
    chain.unknown(direction, api_key)            -> Want of other versions and other keys
    chain.looks_at_topics(direction, api_key, api_version) -> whether wanted_of may say another Want
    chain.wanted_of(direction, api_key, api_version, beginning) -> PASS | TAIL | HOLD, by the topic in the first bytes of a frame
    chain.when_too_large_to_hold(direction, api_key, api_version)
                                                 -> PASS | HEAD | TAIL | REFUSE, for a HOLD frame above limits.held_frame_size
    chain.refuse_large(connection, request)      -> Outcome or an awaitable, or None: what a client gets in place of it
    chain.on_request(connection, frame)          -> Outcome or an awaitable; *frame* is the whole frame, size field included
    chain.on_response(connection, request, frame) -> Outcome or an awaitable; *request* is the RequestFacts of its request
    chain.on_head(connection, request, head)     -> bytes of any size, or None to close: the head, size field included
    chain.on_tail(connection, request, tail)     -> bytes of the same size: the tail of a response, from its first address on

To add a built-in filter: a module here with a class derived from Filter, its entry point in pyproject.toml
(``kproxy.filters``) and in BUILT_IN of loading.py. To add a verdict: contract.py, and Passage._apply.
"""

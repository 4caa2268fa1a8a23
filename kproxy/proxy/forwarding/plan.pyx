# cython: language_level=3, boundscheck=False, wraparound=False
"""What a lane looks up of an API at a version; made once for a configuration, shared by all links that began under it."""

from kproxy.filters.addresses import responses_with_addresses, tail_start
from kproxy.filters.contract import Direction, Want
from kproxy.protocol import facts, message, request_header_version, response_header_version
from kproxy.protocol.program cimport Program
from kproxy.proxy.forwarding.walker import stop_of


cdef class Plan:
    """Tables made of a chain of filters and the facts.

    Args:
        chain: kproxy.filters.Chain; None: every frame passes.
        tapped: API keys whose frames the tap gets; None: all.
        snaplen: bytes of a frame that the tap gets; 0: all.
    """

    def __cinit__(self, chain=None, tapped=None, unsigned int snaplen=0):
        self.chain = chain
        self.programs = []
        self.snaplen = snaplen
        self.selective = tapped is not None or snaplen > 0
        self.unknown.tapped = tapped is None
        for key, api in facts().apis.items():
            if key < PLAN_KEYS:
                self._fill(key, api, chain, tapped is None or key in tapped)

    cdef int _fill(self, int key, object api, object chain, bint tapped) except -1:
        cdef Row *row
        cdef int version
        versions = message(f"{api.name}Request").versions
        self.keys[key] = True
        self.above[key].tapped = tapped
        for version in range(PLAN_VERSIONS):
            if version not in versions:
                continue
            row = &self.rows[key][version]
            row.known = True
            row.tapped = tapped
            row.header_tags = response_header_version(key, version) > 0
            if chain is not None:
                row.want_request = chain.wanted(Direction.REQUEST, key, version)
                row.want_response = chain.wanted(Direction.RESPONSE, key, version)
                if responses_with_addresses().get((key, version)) is Want.TAIL:
                    self._fill_tail(row, api.name, version, chain)
            if key == 0:
                self._fill_produce(version)
        if chain is not None:
            self.above[key].want_request = chain.unknown(Direction.REQUEST, key)
            self.above[key].want_response = chain.unknown(Direction.RESPONSE, key)

    cdef int _fill_tail(self, Row *row, str name, int version, object chain) except -1:
        cdef Program program = message(f"{name}Response").programs(version)[0]
        self.programs.append(program)
        row.tail = program.root
        row.tail_stop = stop_of(program, tail_start(message(f"{name}Response").api_key, version))

    cdef int _fill_produce(self, int version) except -1:
        cdef Program program = message("ProduceRequest").programs(version)[0]
        self.programs.append(program)
        self.produce[version] = program.root
        self.produce_stop[version] = stop_of(program, "acks")
        self.produce_tags[version] = request_header_version(0, version) > 1

    def wanted(self, int side, int api_key, int api_version):
        """What is done with frames of an API at a version; *side* 0 is the client's."""
        cdef Row *row = self.row(api_key, api_version)
        return Want(row.want_response if side else row.want_request)

    def is_tapped(self, int api_key, int api_version):
        """Whether the tap gets frames of an API."""
        return bool(self.row(api_key, api_version).tapped)

    def tail_step(self, int api_key, int api_version):
        """The top-level step of a response where the end begins that is looked at, -1 for the tags; None: it is not TAIL."""
        cdef Row *row = self.row(api_key, api_version)
        return row.tail_stop if row.tail != NULL else None

    cdef Row *row(self, int api_key, int api_version) noexcept nogil:
        if not 0 <= api_key < PLAN_KEYS or not self.keys[api_key]:
            return &self.unknown
        if 0 <= api_version < PLAN_VERSIONS and self.rows[api_key][api_version].known:
            return &self.rows[api_key][api_version]
        return &self.above[api_key]

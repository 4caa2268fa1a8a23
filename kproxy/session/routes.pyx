# cython: language_level=3, nonecheck=True
"""What is to be done with an API at a version: its messages, its response header, and what the session learns from it.

The exceptions of the protocol are here, each with its source; the rest is the facts'.
"""

from enum import IntEnum

from kproxy.protocol.headers cimport read_response_header
from kproxy.protocol.program cimport Program
from kproxy.session.events cimport Frame

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, request_message, response_header_version, response_message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.session.cluster import FIRST_VERSION_WITH_TOPIC_ID, TELLING_REQUESTS, TELLING_RESPONSES


class Step(IntEnum):
    """What a session does beyond pairing; ORDINARY is false."""

    ORDINARY = 0
    PRODUCE = 1  # may not be answered
    FETCH = 2  # may belong to a fetch session
    API_VERSIONS = 3  # names the client's software; may be answered in another version's layout
    SASL_HANDSHAKE = 4
    SASL_AUTHENTICATE = 5


_STEPS = {ApiKey[step.name]: step for step in Step if step}
_FETCH_SESSIONS_FROM = 7  # KIP-227


cdef class Route:
    """An API at a version; shared by all sessions."""

    def __init__(self, int api_key, int api_version, request, response):
        step = _STEPS.get(api_key, Step.ORDINARY)
        self.api_key = api_key
        self.api_version = api_version
        self.name = request.name
        self.request = request
        self.response = response
        self.newest_request = _newest_layout(request, api_version)
        self.newest_response = _newest_layout(response, api_version)
        self.response_header_version = response_header_version(api_key, api_version) if response else 0
        self.request_step = Step.ORDINARY if step in (Step.FETCH, Step.SASL_AUTHENTICATE) else step
        self.response_step = Step.ORDINARY if step in (Step.PRODUCE, Step.API_VERSIONS) else step
        if step is Step.FETCH and api_version < _FETCH_SESSIONS_FROM:
            self.response_step = Step.ORDINARY
        self.has_topic_ids = api_version >= FIRST_VERSION_WITH_TOPIC_ID.get(api_key, 1 << 15)
        self.tells_in_request = api_key in TELLING_REQUESTS
        self.tells_in_response = api_key in TELLING_RESPONSES
        self.learns = bool(self.response_step or self.has_topic_ids or self.tells_in_request or self.tells_in_response)

    cpdef int read_request(self, Frame frame) except -1:
        """Check the request body from ``frame.body_start`` on, and note in the frame how it is to be read."""
        return read_as(frame, self.request, self.newest_request, self.api_version)

    cpdef int read_response(self, Frame frame) except -1:
        """Check the response body from ``frame.body_start`` on, and note in the frame how it is to be read."""
        read_as(frame, self.response, self.newest_response, self.api_version)
        if frame.error is not None and self.request_step is Step.API_VERSIONS:
            # A broker that lacks the version answers in the layout of version 0 (ApiVersionsResponse.parse, KIP-511).
            error = frame.error
            frame.error = None
            read_body(frame, self.response, 0)
            frame.error = frame.error and error
        return 0

    cpdef bint expects_response(self, Frame produce) except -1:
        """Whether a Produce request is answered: with acks=0 it is not, whatever happens (KafkaApis)."""
        try:
            if self.newest_request is not None:
                return self.newest_request.peek("acks", produce.data, produce.body_start) != 0
            return self.request.peek(self.api_version, "acks", produce.data, produce.body_start) != 0
        except DecodeError:
            return True

    def fits_response(self, bytes data):
        """Whether *data* is, to its last byte, a response to this API and version."""
        frame = Frame(data, 0, 0)
        try:
            frame.body_start = read_response_header(data, self.response_header_version).size
        except DecodeError:
            return False
        self.read_response(frame)
        return frame.message is not None


cdef Program _newest_layout(message, int version):
    """What reads nearly every body of that version; None where only ``Message.check`` can tell."""
    if message is None or version not in message.versions:
        return None
    return message.programs(version)[0]


cdef int read_as(Frame frame, message, Program newest, int api_version) except -1:
    """As read_body, with the layout at hand that nearly every body has."""
    if newest is None or newest.check(frame.data, frame.body_start) is not None:
        return read_body(frame, message, api_version)
    frame.message = message
    frame.body_version = api_version
    return 0


cpdef int read_body(Frame frame, message, int api_version) except -1:
    """Check that *message* at *api_version* consumes the body exactly; note in the frame how to read it, or why not."""
    if message is None:
        return 0
    try:
        layout = message.check(api_version, frame.data, frame.body_start)
    except DecodeError as error:
        frame.error = error
        return 0
    frame.message = message
    frame.body_version = layout.version
    frame.layout = layout.release
    if layout.assumed:
        frame.assumed_version = layout.version
    return 0


def decoded(Frame frame not None):
    """The body of a frame that was read, as an object; None of one that was not."""
    return None if frame.message is None else frame.message.decode(frame.body_version, frame.data, frame.body_start)


cdef dict _routes = {}


cpdef Route route_of(int api_key, int api_version):
    """The route of an API; None when the API is not known. A version above the facts has one too."""
    known = _routes.get(api_key << 16 | api_version)
    if known is not None:
        return known
    request = request_message(api_key)
    if request is None or api_version < 0:
        return None
    route = Route(api_key, api_version, request, response_message(api_key))
    if api_version in request.versions:  # others are anybody's invention: not kept
        _routes[api_key << 16 | api_version] = route
    return route


def is_refusal(Frame api_versions not None):
    """Whether an ApiVersions response says that the broker lacks the version, and so read only the request's header.

    RequestContext.parseRequest (KIP-511): such a request is taken for one of version 0, which has no fields, and answered so.
    """
    return api_versions.message is not None and decoded(api_versions).error_code == ErrorCode.UNSUPPORTED_VERSION


def failed(Frame response not None):
    """Whether a response with an error code at its top says that, or cannot be read."""
    return response.message is None or decoded(response).error_code != 0

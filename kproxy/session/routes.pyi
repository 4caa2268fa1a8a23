"""What is to be done with an API at a version: its messages, its response header, and what the session learns from it."""

from enum import IntEnum
from typing import Any

from kproxy.protocol import Message
from kproxy.session.events import Frame

class Step(IntEnum):
    """What a session does beyond pairing; ORDINARY is false."""

    ORDINARY = 0
    PRODUCE = 1  # may not be answered
    FETCH = 2  # may belong to a fetch session
    API_VERSIONS = 3  # names the client's software; may be answered in another version's layout
    SASL_HANDSHAKE = 4
    SASL_AUTHENTICATE = 5

class Route:
    """An API at a version; shared by all sessions."""

    def __init__(self, api_key: int, api_version: int, request: Message, response: Message | None) -> None: ...
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def name(self) -> str:
        """Of the request message."""

    @property
    def request(self) -> Message: ...
    @property
    def response(self) -> Message | None: ...
    @property
    def response_header_version(self) -> int: ...
    @property
    def request_step(self) -> Step: ...
    @property
    def response_step(self) -> Step: ...
    @property
    def has_topic_ids(self) -> bool: ...
    @property
    def tells_in_request(self) -> bool: ...
    @property
    def tells_in_response(self) -> bool: ...
    @property
    def learns(self) -> bool:
        """Whether anything is learned from its exchanges."""

    def read_request(self, frame: Frame) -> None:
        """Check the request body from ``frame.body_start`` on, and note in the frame how it is to be read."""

    def read_response(self, frame: Frame) -> None:
        """Check the response body from ``frame.body_start`` on, and note in the frame how it is to be read."""

    def expects_response(self, produce: Frame) -> bool:
        """Whether a Produce request is answered: with acks=0 it is not, whatever happens (KafkaApis)."""

    def fits_response(self, data: bytes) -> bool:
        """Whether *data* is, to its last byte, a response to this API and version."""

def read_body(frame: Frame, message: Message | None, api_version: int) -> None:
    """Check that *message* at *api_version* consumes the body exactly; note in the frame how to read it, or why not."""

def decoded(frame: Frame) -> Any:
    """The body of a frame that was read, as an object; None of one that was not."""

def route_of(api_key: int, api_version: int) -> Route | None:
    """The route of an API; None when the API is not known. A version above the facts has one too."""

def is_refusal(api_versions: Frame) -> bool:
    """Whether an ApiVersions response says that the broker lacks the version, and so read only the request's header.

    RequestContext.parseRequest (KIP-511): such a request is taken for one of version 0, which has no fields, and answered so.
    """

def failed(response: Frame) -> bool:
    """Whether a response with an error code at its top says that, or cannot be read."""

"""Opener: decodes what is inside bytes and records fields, with the groups' protocols that earlier exchanges named.

SyncGroup names its group's protocol only from version 5 on (KIP-559); JoinGroup, which comes before it, always does. How the
bytes are decoded is in kproxy.protocol.embedded.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from kproxy.protocol import ApiKey
from kproxy.protocol.embedded import Context, Embedded, holds_payloads, open_request, open_response
from kproxy.protocol.facts import facts
from kproxy.session import Event, Exchange, Frame, client_software

if TYPE_CHECKING:
    from kproxy.protocol.embedded import Viewers

Protocols: TypeAlias = tuple[str | None, str | None]  # of a group: type ("consumer") and name ("range")

NO_PROTOCOLS: Protocols = (None, None)
MOST_GROUPS = 10_000
MOST_LEARNED = 8 * 1024 * 1024  # bytes; larger JoinGroup frames are not decoded
HOLDING_APIS = {
    key
    for key, api in facts().apis.items()
    if holds_payloads(f"{api.name}Request") or holds_payloads(f"{api.name}Response")
}


class Opener:
    """Opens the payloads of exchanges, in order. Memory is bounded: the groups seen least recently are forgotten.

    Args:
        viewers: decode the records of ordinary topics too, with these; None: only those of Kafka's internal topics.
    """

    def __init__(self, viewers: "Viewers | None" = None) -> None:
        self.viewers = viewers
        self.groups: OrderedDict[str, Protocols] = OrderedDict()

    def open(self, exchange: Exchange) -> list[Embedded]:
        """Decode what is inside the request, then inside the response. Never raises, whatever the bytes are."""
        if exchange.request is not None and exchange.request.unread:
            return _unread(exchange.request)
        if exchange.api_key not in HOLDING_APIS:
            return []
        holding_request, holding_response = _holder(exchange.request), _holder(exchange.response)
        if holding_request is None and holding_response is None:
            return []
        # Only requests that hold payloads are decoded: responses that need their requests belong to those.
        request = None if holding_request is None else holding_request.body()
        response = None if holding_response is None else holding_response.body()
        context = self._context(exchange, request)
        payloads: list[Embedded] = []
        if holding_request is not None and request is not None:
            payloads += open_request(_name(holding_request), holding_request.body_version, request, context)
        if holding_response is not None and response is not None:
            payloads += open_response(_name(holding_response), holding_response.body_version, response, context)
        return payloads

    def learn(self, event: Event) -> None:
        """Remember the group's protocol from a JoinGroup; other events are ignored."""
        if not isinstance(event, Exchange) or event.api_key != ApiKey.JOIN_GROUP:
            return
        if any(frame is not None and len(frame.data) > MOST_LEARNED for frame in (event.request, event.response)):
            return
        request, response = event.request_body(), event.response_body()
        if request is None:
            return
        known = self.groups.get(request.group_id, NO_PROTOCOLS)
        name = response.protocol_name if response is not None else None
        self.note_protocols(request.group_id, (request.protocol_type, name or known[1]))

    def note_protocols(self, group_id: str, protocols: Protocols) -> None:
        """Remember the protocols of a group."""
        self.groups[group_id] = protocols
        self.groups.move_to_end(group_id)
        if len(self.groups) > MOST_GROUPS:
            self.groups.popitem(last=False)

    def protocols_of(self, group_id: str) -> Protocols:
        """Return the protocols of a group, as far as they are known."""
        return self.groups.get(group_id, NO_PROTOCOLS)

    def _context(self, exchange: Exchange, request: Any) -> Context:
        protocol = NO_PROTOCOLS
        if exchange.api_key == ApiKey.SYNC_GROUP and request is not None:
            protocol = self.protocols_of(request.group_id)
        return Context(exchange.topic_names, *protocol, exchange.connection.sasl_mechanism, request, self.viewers)


def _unread(api_versions: Frame) -> list[Embedded]:
    """Return the client software named in an ApiVersions request that the broker did not read."""
    software = client_software(api_versions.data, api_versions.body_start)
    if software is None:
        return []
    name, version = software
    return [Embedded("", "request", "unread", {"clientSoftwareName": name, "clientSoftwareVersion": version})]


def _holder(frame: Frame | None) -> Frame | None:
    """Return the frame if its message can hold payloads."""
    return frame if frame is not None and holds_payloads(_name(frame)) else None


def _name(frame: Frame) -> str:
    return "" if frame.message is None else frame.message.name

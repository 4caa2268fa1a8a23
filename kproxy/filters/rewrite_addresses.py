"""Clients are told the proxy's addresses in place of the brokers'; an address that cannot be mapped is withheld."""

from collections.abc import Callable
from enum import Enum

from kproxy.errors import DecodeError
from kproxy.filters.addresses import Place, places, responses_with_addresses
from kproxy.filters.contract import (
    Close,
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Replace,
    RequestFacts,
    Response,
    Verdict,
    Want,
)
from kproxy.filters.tail import NO_TAGS, read_tail, withheld_tail, write_tail
from kproxy.protocol import MessageStruct, Struct, response_message
from kproxy.protocol.error_codes import ErrorCode

MOST_ADDRESSES = 10_000  # in one response; Kafka clusters have hundreds of brokers
WITHHELD = "the coordinator's address cannot be served by the proxy"

Map = Callable[[int, str, int], tuple[str, int] | None]  # node id, host, port -> host and port for clients


class Said(Enum):
    """What became of one address."""

    AS_IT_WAS = 0
    CHANGED = 1
    WITHHELD = 2


class RewriteAddresses(Filter):
    """Puts the proxy's host and port for every broker's, in every response that has one.

    Withheld are addresses that ``ConnectionFacts.addresses`` does not map: brokers and node endpoints leave their list, a
    coordinator is COORDINATOR_NOT_AVAILABLE (clients ask again). Of DescribeQuorum's listeners only the one that clients are
    connected to stays: the others, of controllers among themselves, are not served here. DescribeCluster tells of
    controllers to those alone who came to a controller (KIP-919: other brokers answer MISMATCHED_ENDPOINT_TYPE).
    """

    name = "rewrite_addresses"
    responses = frozenset(api_key for api_key, _ in responses_with_addresses())
    required = True

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """TAIL for Produce, Fetch and their kin; HOLD also for versions nobody knows yet, so that they are refused."""
        if direction == Direction.REQUEST or api_key not in self.responses:
            return Want.PASS
        message = response_message(api_key)
        if message is None or api_version not in message.versions:
            return Want.HOLD
        return responses_with_addresses().get((api_key, api_version), Want.PASS)

    def on_response(self, response: Response) -> Verdict:
        """Replace where an address changed; an answer with addresses past counting closes the connection."""
        request = response.request
        try:
            changed = rewrite(response.message, request.api_key, request.api_version, response.connection)
        except TooMany as error:
            return Close(str(error))
        return Replace(response.message) if changed else Forward()

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """The same for the end of a response: what does not fit or cannot be read is withheld."""
        api_key, version = request.api_key, request.api_version
        if tail == NO_TAGS or connection.addresses is None:
            return tail
        try:
            message = read_tail(api_key, version, tail)
            if not rewrite(message, api_key, version, connection):
                return tail
            return write_tail(api_key, version, message, len(tail)) or withheld_tail(api_key, version, len(tail))
        except (DecodeError, TooMany):
            return withheld_tail(api_key, version, len(tail))


class TooMany(ValueError):
    """A response with more than MOST_ADDRESSES."""


def rewrite(message: MessageStruct, api_key: int, api_version: int, connection: ConnectionFacts) -> bool:
    """Map every address in a response, in place; whether anything changed. Raises TooMany."""
    if connection.addresses is None:
        return False
    advertise, known = connection.addresses.advertise, connection.addresses.known
    changed = False
    for place in places(api_key):
        if api_version in place.versions:
            ask = known if place.names_listeners else advertise
            changed |= _Rewriting(place, lambda *address, ask=ask: ask(*address, connection)).visit(message)
    return changed


class _Rewriting:
    """One place in one message."""

    def __init__(self, place: Place, address_for: Map) -> None:
        self.place = place
        self.address_for = address_for
        self.left = MOST_ADDRESSES

    def visit(self, struct: Struct, depth: int = 0) -> bool:
        """Go down the path from *struct*; whether anything changed."""
        if depth == len(self.place.path):
            return self._tell(struct, struct) is not Said.AS_IT_WAS
        field = self.place.path[depth]
        value = getattr(struct, field.attribute)
        if value is None:
            return False
        if depth + 1 < len(self.place.path):
            inner = value if field.is_array else [value]
            return sum([self.visit(child, depth + 1) for child in inner]) > 0
        if field.is_array:
            return self._visit_entries(struct, field.attribute, value)
        return self._visit_single(struct, field.attribute, value)

    def _visit_entries(self, struct: Struct, attribute: str, entries: list[Struct]) -> bool:
        self.left -= len(entries)
        if self.left < 0:
            raise TooMany(f"a response with more than {MOST_ADDRESSES} addresses of brokers")
        told = [self._tell(entry, struct) for entry in entries]
        if not self.place.has_error_code:
            kept = [entry for entry, said in zip(entries, told, strict=True) if said is not Said.WITHHELD]
            setattr(struct, attribute, kept)
        return any(said is not Said.AS_IT_WAS for said in told)

    def _visit_single(self, struct: Struct, attribute: str, value: Struct) -> bool:
        said = self._tell(value, struct)
        if said is Said.WITHHELD:
            setattr(struct, attribute, type(value)())
        return said is not Said.AS_IT_WAS

    def _tell(self, struct: Struct, around: Struct) -> Said:
        """Put the mapped address into *struct*. One that has none to give (an error answer) stays."""
        place = self.place
        address = getattr(struct, place.host), getattr(struct, place.port)
        if not address[0]:
            return Said.AS_IT_WAS
        owner = around if place.names_listeners else struct
        mapped = self.address_for(getattr(owner, place.node_id), *address)
        if mapped == address:
            return Said.AS_IT_WAS
        if mapped is None:
            if place.has_error_code:
                self._refuse(struct)
            return Said.WITHHELD
        self._set_address(struct, *mapped)
        return Said.CHANGED

    def _refuse(self, struct: Struct) -> None:
        """As a broker that knows of no coordinator: Node.noNode() and an error."""
        setattr(struct, self.place.node_id, -1)
        self._set_address(struct, "", -1)
        struct.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
        struct.error_message = WITHHELD  # type: ignore[attr-defined]  # dropped by version 0, which has none

    def _set_address(self, struct: Struct, host: str, port: int) -> None:
        setattr(struct, self.place.host, host)
        setattr(struct, self.place.port, port)

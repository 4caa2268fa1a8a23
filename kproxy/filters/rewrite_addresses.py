"""RewriteAddresses: puts the proxy's addresses in place of the brokers' into responses; one that cannot be mapped is withheld."""

from collections.abc import Awaitable, Callable
from enum import Enum

from kproxy.errors import DecodeError, TrailingBytes
from kproxy.filters.addresses import (
    NO_TAGS,
    AddressField,
    address_fields,
    ends_with_addresses,
    read_head,
    read_tail,
    responses_with_addresses,
    withheld_tail,
    write_head,
    write_tail,
)
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
from kproxy.filters.turns import Steps, at_once, in_turns
from kproxy.protocol import MessageStruct, Struct, response_message
from kproxy.protocol.error_codes import ErrorCode

MOST_ADDRESSES = 10_000  # different ones in one response; Kafka clusters have hundreds of brokers
ADDRESSES_IN_A_TURN = 500  # about a millisecond; then other connections have their turn
TOO_MANY = f"a response with more than {MOST_ADDRESSES} addresses of brokers"
WITHHELD = "the coordinator's address cannot be served by the proxy"

Map = Callable[[int, str, int], tuple[str, int] | None]  # node id, host, port -> host and port for clients


class Result(Enum):
    """What happened to one address."""

    UNCHANGED = 0
    CHANGED = 1
    WITHHELD = 2


class RewriteAddresses(Filter):
    """Replace every broker's host and port by the proxy's, in every response that has one.

    Withheld are addresses that ``ConnectionFacts.addresses`` does not map: brokers and node endpoints leave their list, a
    coordinator is COORDINATOR_NOT_AVAILABLE (clients ask again). Of DescribeQuorum's listeners only the one that clients are
    connected to stays: the others, of controllers among themselves, are not served here. DescribeCluster describes
    controllers only to clients that are connected to a controller (KIP-919: other brokers answer MISMATCHED_ENDPOINT_TYPE).
    """

    name = "rewrite_addresses"
    responses = frozenset(api_key for api_key, _ in responses_with_addresses())
    required = True
    fault_error = None

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HEAD for Metadata and DescribeCluster, TAIL for Produce, Fetch and similar, HOLD for the others.

        HOLD also for versions that are not in the facts, so that they are refused.
        """
        if direction == Direction.REQUEST or api_key not in self.responses:
            return Want.PASS
        message = response_message(api_key)
        if message is None or api_version not in message.versions:
            return Want.HOLD
        return responses_with_addresses().get((api_key, api_version), Want.PASS)

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want | None:
        """Return TAIL if the addresses come last, as in DescribeQuorum."""
        is_known = direction == Direction.RESPONSE and (api_key, api_version) in responses_with_addresses()
        return Want.TAIL if is_known and ends_with_addresses(api_key, api_version) else None

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes:
        """Rewrite the addresses in a head. Raises DecodeError, TooMany: the connection is closed."""
        if connection.addresses is None:
            return head
        api_key, version = request.api_key, request.api_version
        message = read_head(api_key, version, head)
        return write_head(api_key, version, message) if rewrite(message, api_key, version, connection) else head

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Replace the response if an address changed; close the connection if it has more than MOST_ADDRESSES."""
        return in_turns(self._rewritten(response))

    def _rewritten(self, response: Response) -> Steps[Verdict]:
        request = response.request
        try:
            changed = yield from rewrite_in_steps(
                response.message, request.api_key, request.api_version, response.connection
            )
        except TooMany as error:
            return Close(str(error))
        return Replace(response.message) if changed else Forward()

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Rewrite the addresses in a tail; one that does not fit or cannot be read is withheld as a whole.

        Bytes after the message stay as they are: clients ignore them.
        """
        api_key, version = request.api_key, request.api_version
        if tail == NO_TAGS or connection.addresses is None:
            return tail
        try:
            message = read_tail(api_key, version, tail)
            if not rewrite(message, api_key, version, connection):
                return tail
            return write_tail(api_key, version, message, len(tail)) or withheld_tail(api_key, version, len(tail))
        except TrailingBytes as error:
            end = len(tail) - (error.left or 0)
            return self.on_tail(connection, request, tail[:end]) + tail[end:]
        except (DecodeError, TooMany):
            return withheld_tail(api_key, version, len(tail))


class TooMany(ValueError):
    """A response with more than MOST_ADDRESSES."""


def rewrite(message: MessageStruct, api_key: int, api_version: int, connection: ConnectionFacts) -> bool:
    """Map every address in a response, in place; return whether anything changed. Raises TooMany."""
    return at_once(rewrite_in_steps(message, api_key, api_version, connection))


def rewrite_in_steps(
    message: MessageStruct, api_key: int, api_version: int, connection: ConnectionFacts
) -> Steps[bool]:
    """As ``rewrite``, in steps of at most ADDRESSES_IN_A_TURN; the generator returns whether anything changed."""
    if connection.addresses is None:
        return False
    advertise, known = connection.addresses.advertise, connection.addresses.known
    changed = False
    for place in address_fields(api_key):
        if api_version in place.versions:
            ask = known if place.names_listeners else advertise
            rewriting = _Rewriting(place, lambda *address, ask=ask: ask(*address, connection))
            changed |= yield from rewriting.visit(message)
    return changed


class _Rewriting:
    """The addresses of one field in one message."""

    def __init__(self, place: AddressField, address_for: Map) -> None:
        self.place = place
        self.address_for = address_for
        self.left_in_turn = ADDRESSES_IN_A_TURN
        self.mapped: dict[tuple[int, str, int], tuple[str, int]] = {}

    def visit(self, struct: Struct, depth: int = 0) -> Steps[bool]:
        """Rewrite what is below *struct*; return whether anything changed."""
        if depth == len(self.place.path):
            return self._rewrite(struct, struct) is not Result.UNCHANGED
        field = self.place.path[depth]
        value = getattr(struct, field.attribute)
        if value is None:
            return False
        if depth + 1 < len(self.place.path):
            changed = False
            for child in value if field.is_array else [value]:
                changed |= yield from self.visit(child, depth + 1)
            return changed
        if field.is_array:
            return (yield from self._visit_entries(struct, field.attribute, value))
        return self._visit_single(struct, field.attribute, value)

    def _visit_entries(self, struct: Struct, attribute: str, entries: list[Struct]) -> Steps[bool]:
        # Elements with an error code are groups with their coordinators: any number of them is allowed
        if len(entries) > MOST_ADDRESSES and not self.place.has_error_code:
            raise TooMany(TOO_MANY)
        results = []
        for entry in entries:
            results.append(self._rewrite(entry, struct))
            self.left_in_turn -= 1
            if not self.left_in_turn:
                self.left_in_turn = ADDRESSES_IN_A_TURN
                yield
        if not self.place.has_error_code:
            kept = [entry for entry, result in zip(entries, results, strict=True) if result is not Result.WITHHELD]
            setattr(struct, attribute, kept)
        return any(result is not Result.UNCHANGED for result in results)

    def _visit_single(self, struct: Struct, attribute: str, value: Struct) -> bool:
        result = self._rewrite(value, struct)
        if result is Result.WITHHELD:
            setattr(struct, attribute, type(value)())
        return result is not Result.UNCHANGED

    def _rewrite(self, struct: Struct, around: Struct) -> Result:
        """Put the mapped address into *struct*. One without an address (an error) stays as it is."""
        place = self.place
        address = getattr(struct, place.host), getattr(struct, place.port)
        if not address[0]:
            return Result.UNCHANGED
        owner = around if place.names_listeners else struct
        mapped = self._mapped(getattr(owner, place.node_id), *address)
        if mapped == address:
            return Result.UNCHANGED
        if mapped is None:
            if place.has_error_code:
                self._refuse(struct)
            return Result.WITHHELD
        self._set_address(struct, *mapped)
        return Result.CHANGED

    def _mapped(self, node_id: int, host: str, port: int) -> tuple[str, int] | None:
        """Ask for an address once; one that is refused is asked for each time, as each refusal is counted."""
        mapped = self.mapped.get((node_id, host, port))
        if mapped is None:
            mapped = self.address_for(node_id, host, port)
            if mapped is not None:
                self.mapped[node_id, host, port] = mapped
                if len(self.mapped) > MOST_ADDRESSES:
                    raise TooMany(TOO_MANY)
        return mapped

    def _refuse(self, struct: Struct) -> None:
        """Answer as a broker that knows no coordinator: Node.noNode() and an error."""
        setattr(struct, self.place.node_id, -1)
        self._set_address(struct, "", -1)
        struct.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
        struct.error_message = WITHHELD  # type: ignore[attr-defined]  # dropped by version 0, which has none

    def _set_address(self, struct: Struct, host: str, port: int) -> None:
        setattr(struct, self.place.host, host)
        setattr(struct, self.place.port, port)

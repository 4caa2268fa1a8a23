"""Request and response headers, and which version of them belongs to which API version."""

class RequestHeader:
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None:
        """Bytes that are not UTF-8 are lone surrogates."""

    @property
    def unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        """(tag, data) in the order of the wire."""

    @property
    def header_version(self) -> int:
        """0, 1 or 2."""

    @property
    def size(self) -> int:
        """Bytes it took."""

    def to_json(self) -> bytes: ...

class ResponseHeader:
    @property
    def correlation_id(self) -> int: ...
    @property
    def unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        """(tag, data) in the order of the wire."""

    @property
    def header_version(self) -> int:
        """0 or 1."""

    @property
    def size(self) -> int:
        """Bytes it took."""

    def to_json(self) -> bytes: ...

def request_header_version(api_key: int, api_version: int) -> int: ...
def response_header_version(api_key: int, api_version: int) -> int: ...
def read_request_header(data: bytes, start: int = 0) -> RequestHeader: ...
def read_response_header(data: bytes, header_version: int, start: int = 0) -> ResponseHeader: ...

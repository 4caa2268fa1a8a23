"""Read the client's software from an ApiVersions request newer than the facts.

The newest clients begin with such a request (franz-go sends version 5 since KIP-1242), and a broker that lacks the version
answers after reading only the header (RequestContext.parseRequest, KIP-511). Every version since 3 begins with two names, which
Kafka's pattern restricts, so they can be distinguished from other bytes.
"""

import re

_SOFTWARE = re.compile(
    rb"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
)  # ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN
SOFTWARE_FROM = 3  # the api_version of ApiVersions whose request names the client's software (KIP-511)
_LONGEST = 126  # bytes: the longest COMPACT_STRING with a one-byte length


def client_software(data: bytes, start: int) -> tuple[str, str] | None:
    """Return name and version of the client's software, or None if the body at *start* does not begin with them."""
    name, position = _name(data, start)
    version, _ = _name(data, position)
    return None if name is None or version is None else (name, version)


def _name(data: bytes, start: int) -> tuple[str | None, int]:
    size = data[start] - 1 if start < len(data) else 0
    name = data[start + 1 : start + 1 + size]
    if not 0 < size <= _LONGEST or len(name) != size or _SOFTWARE.fullmatch(name) is None:
        return None, len(data)
    return name.decode("ascii"), start + 1 + size

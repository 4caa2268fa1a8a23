"""Which software the client is, from an ApiVersions request newer than the facts.

The newest clients begin with it (franz-go asks at version 5 since KIP-1242), and a broker that lacks the version answers all
the same, without having read anything but the header (RequestContext.parseRequest, KIP-511). Every version since 3 begins
with the two names, and Kafka's pattern bounds these names, so that they can be distinguished from other bytes.
"""

import re

_SOFTWARE = re.compile(
    rb"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
)  # ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN
SOFTWARE_FROM = 3  # the api_version of ApiVersions whose request names the client's software (KIP-511)
_LONGEST = 126  # bytes: a COMPACT_STRING whose length takes one


def client_software(data: bytes, start: int) -> tuple[str, str] | None:
    """Name and version of the client's software, where the body at *start* begins with them; None where it does not."""
    name, position = _name(data, start)
    version, _ = _name(data, position)
    return None if name is None or version is None else (name, version)


def _name(data: bytes, start: int) -> tuple[str | None, int]:
    size = data[start] - 1 if start < len(data) else 0
    name = data[start + 1 : start + 1 + size]
    if not 0 < size <= _LONGEST or len(name) != size or _SOFTWARE.fullmatch(name) is None:
        return None, len(data)
    return name.decode("ascii"), start + 1 + size

"""NarrowApiVersions: ApiVersions offers no version that a required filter could not read, so that clients use none."""

from collections.abc import Iterable
from struct import pack
from typing import Any

from kproxy.errors import DecodeError
from kproxy.filters.contract import Direction, Filter, Forward, Replace, Response, Verdict, Want
from kproxy.protocol import ApiKey, known_message, request_message, response_message
from kproxy.protocol.error_codes import ErrorCode

BEYOND = 1 << 15  # above every version, an int16
BODY_START = 8  # size, correlation id: the header of these responses has no tags at any version (KIP-511)


def is_known(api_key: int, api_version: int) -> bool:
    """Return whether the facts have that version of the request and the response of an API."""
    request, response = request_message(api_key), response_message(api_key)
    return bool(request and response and api_version in request.versions and api_version in response.versions)


def is_refused(filters: Iterable[Filter], api_key: int) -> bool:
    """Return whether some required filter wants the API, in either direction, at versions that are not in the facts."""
    message = request_message(api_key)
    beyond = message.versions.highest + 1 if message else 0
    return any(
        filter_.required and filter_.wants(direction, api_key, beyond) is not Want.PASS
        for filter_ in filters
        for direction in Direction
    )


def oldest_accepted(filters: Iterable[Filter], api_key: int) -> int:
    """Return the oldest version of an API whose requests all filters accept; above every version if one refuses the API."""
    return max(
        (BEYOND if api_key in filter_.refuses else filter_.oldest_versions.get(api_key, 0) for filter_ in filters),
        default=0,
    )


def refused_version(frame: bytes) -> bytes:
    """Return the response to an ApiVersions request at a version that is not in the facts: that of a broker that lacks it.

    It is in the layout of version 0 with error 35 (KIP-511). If *frame*, the broker's, is one, it passes as it is; otherwise
    it is replaced by one made here, and the client asks again for a version that can be narrowed.
    """
    message = known_message(Direction.RESPONSE, ApiKey.API_VERSIONS)
    try:
        if message.decode(0, frame[BODY_START:]).error_code == ErrorCode.UNSUPPORTED_VERSION:
            return frame
    except DecodeError:
        pass
    body = pack(">hihhh", ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, message.versions.highest)
    return pack(">i", 4 + len(body)) + frame[4:BODY_START].ljust(4, b"\0") + body


class NarrowApiVersions(Filter):
    """Remove the versions that a required filter would have to refuse. Chain adds this filter itself.

    Responses that offer no such version pass byte for byte, and so do errors in the layout of version 0.
    """

    name = "narrow_api_versions"
    responses = (ApiKey.API_VERSIONS,)
    fault_error = None

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._filters = tuple(filters)
        self._limits: dict[int, tuple[int, int] | None] = {}

    def on_response(self, response: Response) -> Verdict:
        """Replace the response if a version or a whole API is to be removed."""
        message: Any = response.message
        offered = message.api_keys
        kept = [api for api in offered if self._is_readable(api)]
        changed = len(kept) < len(offered)
        for api in kept:
            limits = self._limit(api.api_key)
            if limits is not None and not limits[0] <= api.min_version <= api.max_version <= limits[1]:
                api.min_version, api.max_version = max(api.min_version, limits[0]), min(api.max_version, limits[1])
                changed = True
        message.api_keys = kept
        return Replace(message) if changed else Forward()

    def _is_readable(self, api: Any) -> bool:
        limits = self._limit(api.api_key)
        return limits is None or max(api.min_version, limits[0]) <= min(api.max_version, limits[1])

    def _limit(self, api_key: int) -> tuple[int, int] | None:
        """Return the versions that required filters can read, an empty range for a refused API; None if none wants it."""
        if api_key not in self._limits:
            oldest = oldest_accepted(self._filters, api_key)
            if is_refused(self._filters, api_key):
                lowest, highest = self._readable(api_key)
                self._limits[api_key] = max(lowest, oldest), highest
            else:
                self._limits[api_key] = (oldest, BEYOND) if oldest else None
        return self._limits[api_key]

    def _readable(self, api_key: int) -> tuple[int, int]:
        request, response = request_message(api_key), response_message(api_key)
        if request is None or response is None:
            return 0, -1
        both = request.versions.intersect(response.versions)
        return both.lowest, both.highest

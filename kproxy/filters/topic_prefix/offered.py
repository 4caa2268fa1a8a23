"""What a tenant's clients may use: ApiVersions offers no API and no version that the filter refuses."""

from typing import Any

from kproxy.filters.topic_prefix import acls
from kproxy.filters.topic_prefix.places import ADMINISTRATION, RENAMED, UNTOUCHED
from kproxy.protocol import ApiKey

LOWEST: dict[int, int] = dict.fromkeys((ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS), acls.OLDEST)


def is_offered(api_key: int, api_version: int, *, cluster: bool) -> bool:
    """Return whether requests of an API at a version are forwarded; *cluster*: also those that administer the cluster."""
    if api_key in ADMINISTRATION and not cluster:
        return False
    return api_key in RENAMED | UNTOUCHED and api_version >= LOWEST.get(api_key, 0)


def narrow(message: Any, *, cluster: bool) -> bool:
    """Remove what is not offered from an ApiVersions response; return whether something was."""
    kept = [api for api in message.api_keys if is_offered(api.api_key, api.max_version, cluster=cluster)]
    changed = len(kept) < len(message.api_keys)
    for api in kept:
        lowest = LOWEST.get(api.api_key, 0)
        if api.min_version < lowest:
            api.min_version = lowest
            changed = True
    message.api_keys = kept
    return changed

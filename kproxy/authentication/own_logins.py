"""OwnLogins: the filter of a virtual cluster whose clients log in to kproxy.

It has SaslHandshake and SaslAuthenticate held, for re-authentication, and offers them in ApiVersions, also if the broker does
not. APIs that are about the broker's own users are refused and not offered, as they say nothing about who may log in to kproxy,
unless the configuration passes them.
"""

from typing import Any

from kproxy.filters.contract import Close, Filter, Forward, Replace, Request, Response, Verdict
from kproxy.protocol import ApiKey, Direction, known_message
from kproxy.protocol.structs import struct_types

BROKER_USERS = (
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)
LOGINS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class OwnLogins(Filter):
    """Offers kproxy's own SASL to clients.

    Args:
        passes_broker_users: whether the APIs of BROKER_USERS are forwarded.
    """

    name = "authentication"
    requests = LOGINS
    responses = (ApiKey.API_VERSIONS,)
    required = True
    fault_error = None

    def __init__(self, passes_broker_users: bool) -> None:
        self.refuses = () if passes_broker_users else BROKER_USERS

    def on_request(self, request: Request) -> Verdict:
        """Close: a login on an open connection is answered before the filters."""
        return Close("a login that kproxy has not begun")

    def on_response(self, response: Response) -> Verdict:
        """Offer SASL in the versions that kproxy has."""
        message: Any = response.message
        if message.error_code:
            return Forward()
        offered = {api.api_key: api for api in message.api_keys}
        for api_key in LOGINS:
            request, answer = (known_message(direction, api_key) for direction in Direction)
            versions = request.versions.intersect(answer.versions)
            api: Any = offered.get(api_key) or struct_types("ApiVersionsResponse")["ApiVersion"]()
            api.api_key, api.min_version, api.max_version = api_key, versions.lowest, versions.highest
            if api_key not in offered:
                message.api_keys.append(api)
        return Replace(message)

"""RefuseLogins: clients do not log in where kproxy itself has logged in to the broker.

They get the error of a broker whose listener wants no login (KafkaApis.handleSaslHandshakeRequest).
"""

from kproxy.filters.contract import Filter, Reply, Request, Verdict
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode


class RefuseLogins(Filter):
    """Answers SaslHandshake and SaslAuthenticate with ILLEGAL_SASL_STATE. The last of its chain: the others see the attempt."""

    name = "refuse_logins"
    requests = answers = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

    def on_request(self, request: Request) -> Verdict:
        """Answer in place of the broker."""
        response = request.new_response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if request.api_key == ApiKey.SASL_AUTHENTICATE:
            response.error_message = "kproxy logs in to the brokers: clients do not"
        return Reply(response)

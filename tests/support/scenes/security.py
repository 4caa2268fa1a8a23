"""Scenes of security."""

from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Rows, moment
from tests.support.scenes.scene import scene


@scene(
    "unauthorized_access", client_id="spy", user_name="eve", api_name="Metadata", resource_type="topic", resource="salaries",
    errors=1, error_name="TOPIC_AUTHORIZATION_FAILED",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if bad else ErrorCode.LEADER_NOT_AVAILABLE
    tables.client("spy", user_name="eve").error(0, ApiKey.METADATA, code, "salaries")


@scene(
    "unauthorized_access", resource_type="cluster", resource="kafka-cluster", error_name="CLUSTER_AUTHORIZATION_FAILED"
)
def _(tables: Rows, bad: bool) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if bad else ErrorCode.INVALID_REQUEST
    tables.client("spy", user_name="eve").error(0, ApiKey.CREATE_ACLS, code, kind="none")


@scene(
    "authentication_failed", client_id="app", user_name="bob", sasl_mechanism="PLAIN", failures=2, broker="10.0.0.9:9092",
    error_name="SASL_AUTHENTICATION_FAILED",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    for number in range(2):
        client = tables.client("app", user_name="bob", sasl_mechanism="PLAIN")
        if bad:
            client.error(number, ApiKey.SASL_AUTHENTICATE, ErrorCode.SASL_AUTHENTICATION_FAILED, kind="none")
        else:
            client.ask(number, ApiKey.SASL_AUTHENTICATE)


@scene("plaintext_credentials", client_id="app", user_name="bob", sasl_mechanism="PLAIN", connections=2, exchange=2)
def _(tables: Rows, bad: bool) -> None:
    for number in range(2):
        tls = None if bad else "TLS 1.3"
        client = tables.client("app", user_name="bob", sasl_mechanism="PLAIN", tls_version=tls)
        client.ask(number, ApiKey.API_VERSIONS)
        client.ask(number + 0.1, ApiKey.SASL_HANDSHAKE)


@scene("plaintext_credentials", client_id="app", sasl_mechanism="PLAIN", connections=1)
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app", sasl_mechanism="PLAIN")
    if bad:
        client.ask(0, ApiKey.SASL_AUTHENTICATE)
    else:  # the listener does not offer PLAIN: no password is sent
        client.error(0, ApiKey.SASL_HANDSHAKE, ErrorCode.UNSUPPORTED_SASL_MECHANISM, kind="none")


@scene("plaintext_credentials", sasl_mechanism="OAUTHBEARER", user_name="unknown")
def _(tables: Rows, bad: bool) -> None:
    mechanism = "OAUTHBEARER" if bad else "SCRAM-SHA-256"  # SCRAM never sends the password
    tables.client("app", sasl_mechanism=mechanism).ask(0, ApiKey.SASL_HANDSHAKE)


@scene("old_tls", client_id="app", tls_version="TLS 1.1", connections=1, exchange=None)
def _(tables: Rows, bad: bool) -> None:
    tables.client("app", tls_version="TLS 1.1" if bad else "TLS 1.2")


@scene(
    "tls_failed", client_address="10.0.0.5", connections=3, cause="the client does not accept the certificate of the broker",
    alert="client: fatal unknown_ca", tls_server_name="kafka.example", connections_that_worked=0, seconds=4,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    for second in (0, 2, 4):  # the other: a port that nobody knows to be Kafka's
        port = 9093 if bad else 443
        _ended(tables, second, "client: fatal unknown_ca", broker_port=port, tls_server_name="kafka.example")


@scene("tls_failed", cause="no version of TLS in common", connections_that_worked=1, broker="10.0.0.9:443")
def _(tables: Rows, bad: bool) -> None:
    tables.client("app", broker_port=443, tls_version="TLS 1.3", tls_alerts=[]).produce(0, "jobs")
    alerts = (
        ["protocol_version"] * 3
        if bad
        else ["protocol_version", "handshake_failure", "decode_error", "unexpected_message"]
    )
    for second, alert in enumerate(alerts):  # the other: a scanner
        _ended(tables, second, f"broker: fatal {alert}", broker_port=443)


def _ended(tables: Rows, at: float, alert: str, **columns: Any) -> None:
    times = {"first_seen_at": moment(at), "last_seen_at": moment(at)}
    tables.client(None, not_kafka="tls", tls_alerts=[alert], **times, **columns)

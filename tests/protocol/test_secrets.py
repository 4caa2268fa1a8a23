"""Which settings and fields are secrets. The names are Kafka's settings of type PASSWORD, and harmless neighbours."""

import pytest

from kproxy.protocol.facts import facts
from kproxy.protocol.secrets import Secrecy, is_known_setting, is_secret_setting, is_secret_value, secrecy

# ConfigDef.Type.PASSWORD in SslConfigs, SaslConfigs, BrokerSecurityConfigs, PasswordEncoderConfigs and
# DelegationTokenManagerConfigs
PASSWORDS = [
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "delegation.token.secret.key",
    "delegation.token.master.key",
    "password.encoder.secret",
    "password.encoder.old.secret",
]
OTHERS = [
    "database.password",
    "connection.passwd",
    "aws.secret.access.key",
    "schema.registry.basic.auth.user.info",
    "api.key",
    "db.pwd",
    "my.pass",
    "ldap-pw",
    "oauth.bearer",
    "connection.url",
    "my.password.ms",
    "some.passwords.class",
]
HARMLESS = [
    "retention.ms",
    "cleanup.policy",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "sasl.mechanism",
    "compression.type",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "delegation.token.expiry.time.ms",
    "key.converter",
    "compass.direction",
    "sasl.oauthbearer.jwks.endpoint.url",
    "message.key.columns",
]


def test_settings_that_are_secrets_under_any_prefix_and_in_any_case() -> None:
    for name in PASSWORDS + OTHERS:
        for prefix in ["", "listener.name.internal.", "listener.name.sasl_ssl.scram-sha-512.", "producer.override."]:
            assert is_secret_setting((prefix + name).encode()), (name, prefix)
            assert is_secret_setting((prefix + name).upper().encode()), (name, prefix)


def test_settings_that_are_not() -> None:
    for name in HARMLESS:
        assert not is_secret_setting(name.encode()), name


def test_a_name_that_is_not_utf8_is_matched_on_its_bytes() -> None:
    assert is_secret_setting(b"\xff\xfe.password")
    assert not is_secret_setting(b"\xff\xfe")
    assert not is_secret_setting(b"")


@pytest.mark.parametrize(
    ("message", "path", "expected"),
    [
        ("SaslAuthenticateRequest", ("authBytes",), Secrecy.ALWAYS),
        ("SaslAuthenticateResponse", ("authBytes",), Secrecy.ALWAYS),
        ("SaslAuthenticateResponse", ("errorMessage",), Secrecy.OPEN),
        ("AlterUserScramCredentialsRequest", ("upsertions", "salt"), Secrecy.ALWAYS),
        ("AlterUserScramCredentialsRequest", ("upsertions", "saltedPassword"), Secrecy.ALWAYS),
        ("AlterUserScramCredentialsRequest", ("upsertions", "iterations"), Secrecy.OPEN),
        ("DescribeDelegationTokenResponse", ("tokens", "hmac"), Secrecy.ALWAYS),
        ("AlterConfigsRequest", ("resources", "configs", "name"), Secrecy.NAMES_AN_UNMARKED_SETTING),
        ("DescribeConfigsResponse", ("results", "configs", "name"), Secrecy.NAMES_THE_SETTING),
        ("AlterConfigsRequest", ("resources", "configs", "value"), Secrecy.BY_NAME),
        ("DescribeConfigsResponse", ("results", "configs", "synonyms", "value"), Secrecy.BY_NAME),
        ("DescribeConfigsResponse", ("results", "configs", "isSensitive"), Secrecy.MARKS_THE_VALUE),
        ("EnvelopeRequest", ("requestData",), Secrecy.ALWAYS),
        ("MetadataResponse", ("topics", "name"), Secrecy.OPEN),
        ("DescribeClientQuotasResponse", ("entries", "values", "value"), Secrecy.OPEN),
    ],
)
def test_what_a_field_has_to_do_with_secrets(message: str, path: tuple[str, ...], expected: Secrecy) -> None:
    assert secrecy(message, path) is expected


def test_every_message_with_settings_has_their_names_before_their_values() -> None:
    """The JSON sink knows whether a value is a secret only when it has seen its name."""
    names = ["AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest", "CreateTopicsResponse"]
    for name in [*names, "DescribeConfigsResponse", "ConfigRecord"]:
        for layout in facts().layouts(name):
            stack = [layout.fields]
            seen = 0
            while stack:
                fields = stack.pop()
                order = [f.json_name for f in fields]
                if "value" in order:
                    seen += 1
                    assert order.index("name") < order.index("value")
                stack += [f.fields for f in fields if f.fields]
            assert seen


@pytest.mark.parametrize(
    "name",
    [
        *(
            "cleanup.policy",
            "log.retention.ms",
            "zookeeper.session.timeout.ms",
            "consumer.session.timeout.ms",
            "metrics",
        ),
        *("listener.name.internal.ssl.client.auth", "listener.name.a.scram-sha-256.sasl.server.callback.handler.class"),
        *("kafka.server.KafkaApis", "org.apache.kafka.common.network.Selector", "root"),
    ],
)
def test_settings_that_kafka_knows(name: str) -> None:
    assert is_known_setting(name.encode())


@pytest.mark.parametrize(
    "name", ["", "a.plugin.of.ours", "cleanup.policy ", "listener.name.a.of.ours", "kafka.", "Root"]
)
def test_the_value_of_a_setting_that_kafka_does_not_know_is_withheld_where_nobody_marks_it(name: str) -> None:
    """As KafkaConfig.loggableValue does: unknown is sensitive. DescribeConfigs has the broker's own word."""
    assert not is_known_setting(name.encode())
    for message in ("AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest", "ConfigRecord"):
        assert is_secret_value(message, name.encode())
        assert not is_secret_value(message, b"cleanup.policy")
        assert is_secret_value(message, b"ssl.key.password")
    assert not is_secret_value("DescribeConfigsResponse", name.encode())

"""Settings of a client, as Kafka's tools read them from a file."""

import os
from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.login.client_settings import ClientSettings, Credentials, read_credentials, read_settings

SECRET = "the-pass,word= \"of\" 'alice' \\"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
WRONG = {
    "sasl.mechanism=PLAIN": "sasl.mechanism is set, security.protocol is not: write SASL_SSL or SASL_PLAINTEXT",
    "security.protocol=TLS": "security.protocol is one of PLAINTEXT, SSL",
    "security.protocol=SASL_SSL": "sasl.mechanism is missing (Kafka's default is GSSAPI); kproxy can log in with PLAIN",
    "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN": "no username: sasl.jaas.config names none",
    "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a": "no password",
    "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=${env:KPROXY_NONE}": "KPROXY_NONE, which",
    "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.keytab=/k": "no principal: sasl.jaas.config names none",
    "security.protocol=SSL\nssl.truststore.location=a.jks": "give the authorities with --tls-ca",
    "security.protocol=\\u00g0": "four hexadecimal digits",
    "security.protocol=SSL\nssl.keystore.location=a.jks": "--tls-certificate",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_a_login_of_java(file: Path) -> None:
    password = SECRET.replace("\\", "\\\\").replace('"', '\\"')  # as JAAS has it
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="alice" password="{password}";\nacks=all\n'.replace("\\\\", "\\\\\\\\").replace('\\"', '\\\\"')
    )
    assert read_settings(file) == ClientSettings(True, "/ca.pem", Credentials("SCRAM-SHA-512", "alice", SECRET))


@pytest.mark.parametrize(
    "text",
    [
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true \\\n"
        '  keyTab="/etc/alice.keytab" principal="alice@EXAMPLE.COM";\nsasl.kerberos.service.name=queues\n',
        "sasl.kerberos.keytab=/etc/alice.keytab\nsasl.kerberos.principal=alice@EXAMPLE.COM\nsasl.kerberos.service.name=queues\n",
    ],
    ids=["Java", "librdkafka"],
)
def test_a_login_by_kerberos(file: Path, text: str) -> None:
    file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n{text}")
    found = Credentials("GSSAPI", "alice@EXAMPLE.COM", "", keytab="/etc/alice.keytab", service="queues")
    assert read_credentials(file) == found


def test_a_login_of_librdkafka_from_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)
    file.write_text(
        "security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=alice\nsasl.password=${env:A_PASSWORD}\n"
    )
    found = read_settings(file)
    assert found == ClientSettings(False, None, Credentials("PLAIN", "alice", SECRET, needs_tls=False))
    assert SECRET not in repr(found) and "alice" in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        f'sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={MODULE} required username="al ice" password="pe\\\\"n=c;il";\n',
        f"# a comment\n! another\nsasl.mechanism : SCRAM-SHA-256\nsasl.jaas.config {MODULE} required \\\n"
        '    username="al ice" \\\n    password="pe\\\\"n=c;il";\n',
        'sasl.mechanisms=SCRAM-SHA-256\nsasl.username=al ice\nsasl.password=pe"n=c;il\n',
        'sasl.mechanism=SCRAM-SHA-256\r\nsasl.username=al\\u0020ice\r\nsasl.password=pe"n\\=c;il\r\n',
    ],
    ids=["Java", "over lines", "librdkafka", "escaped"],
)
def test_the_login_alone(file: Path, text: str) -> None:
    """As java.util.Properties.load and JAAS (java.io.StreamTokenizer) read it."""
    for protocol, needs_tls in (("SASL_SSL", True), ("SASL_PLAINTEXT", False)):
        file.write_text(f"security.protocol={protocol}\n{text}", newline="")
        assert read_credentials(file) == Credentials("SCRAM-SHA-256", "al ice", 'pe"n=c;il', needs_tls)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [("", "is not"), ("security.protocol=SSL\n", "has no login"), ("security.protocol=plaintext\n", "has no login")],
)
def test_a_login_that_the_protocol_does_not_have(file: Path, protocol: str, said: str) -> None:
    """Whether the password may cross a network without TLS is the file's to say."""
    file.write_text(f"{protocol}sasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=pencil\n")
    with pytest.raises(UsageError, match=f"security.protocol {said}: write SASL_SSL or SASL_PLAINTEXT"):
        read_credentials(file)


def test_tls_alone(file: Path) -> None:
    file.write_text("security.protocol: SSL\n")
    assert read_settings(file) == ClientSettings(tls=True)
    file.write_text("")
    assert read_settings(file) == ClientSettings()


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_what_is_wrong_is_said_without_its_value(file: Path, text: str, said: str) -> None:
    file.write_text(f"sasl.jaas.config=x required password='{SECRET[:8]}'\n" if "no username" in said else "")
    file.write_text(file.read_text() + text)
    with pytest.raises(UsageError) as wrong:
        read_settings(file)
    assert said in str(wrong.value) and str(file) in str(wrong.value) and "\n" not in str(wrong.value)
    assert SECRET[:8] not in str(wrong.value)


@pytest.mark.parametrize("name", ["username", "password"])
def test_a_login_that_is_not_utf_8(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of the environment come as surrogates (PEP 383)."""
    monkeypatch.setitem(os.environb, b"IN_LATIN_1", "Jürgen".encode("latin-1"))
    for value in ("${env:IN_LATIN_1}", "J\\udcfcrgen"):
        other = "username" if name == "password" else "password"
        file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.{other}=alice\nsasl.{name}={value}\n")
        for read in (read_settings, read_credentials):
            with pytest.raises(UsageError, match=f"the {name} is not UTF-8") as wrong:
                read(file)
            assert "rgen" not in str(wrong.value)


def test_files_that_are_none(tmp_path: Path, file: Path) -> None:
    for path, said in ((tmp_path / "missing", "No such file"), (tmp_path, "directory")):
        with pytest.raises(UsageError, match=said):
            read_settings(path)
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        read_settings(file)
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(UsageError, match="more than"):
        read_settings(file)

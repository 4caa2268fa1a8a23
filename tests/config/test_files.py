"""Certificates and keys made by the cryptography package: what OpenSSL will load passes, the rest is named."""

import os
import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kproxy.config.files import check_files, check_filters, watched_files
from kproxy.config.structs import (
    Analysis,
    BrokerTls,
    Cluster,
    Config,
    FilterUse,
    ListenerTls,
    Page,
    Rotated,
    Spill,
    Traces,
)
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from tests.support.tls import certificates

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """broker.pem and client.pem with a key and its certificate each, ca.pem."""
    return Path(shutil.copytree(certificates(), tmp_path / "tls"))


def listener(**tls: str) -> list[tuple[str, str]]:
    part = ListenerTls(**tls)  # type: ignore[arg-type]
    return list(check_files(Config(clusters=[Cluster(listen=":1", listener_tls=part)])))


def key_alone(files: Path, password: bytes | None = None) -> str:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    key = ec.generate_private_key(ec.SECP256R1())
    (files / "key.pem").write_bytes(key.private_bytes(PEM, PKCS8, how))
    return str(files / "key.pem")


def test_a_key_of_another_certificate(files: Path) -> None:
    pem = str(files / "broker.pem")
    for key in (str(files / "client.pem"), key_alone(files)):
        ((path, message),) = listener(certificate=pem, key=key)
        assert path == "clusters[0].listener_tls.key"
        assert "is not the key of" in message or "does not contain a private key" in message


def test_an_encrypted_key_does_not_prompt_for_its_password(files: Path) -> None:
    ((path, message),) = listener(certificate=str(files / "broker.pem"), key=key_alone(files, b"geheim"))
    assert path == "clusters[0].listener_tls.key"
    assert "is encrypted" in message


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_files_without_a_certificate(files: Path, content: bytes) -> None:
    (files / "bad.pem").write_bytes(content)
    bad, good = str(files / "bad.pem"), str(files / "broker.pem")
    ((path, message),) = listener(certificate=bad, key=good)
    assert path == "clusters[0].listener_tls.certificate"
    assert "does not contain a certificate in PEM" in message
    assert [path for path, _ in listener(certificate=good, key=bad)] == ["clusters[0].listener_tls.key"]
    assert [path for path, _ in listener(certificate=good, key=good, client_ca=bad)] == [
        "clusters[0].listener_tls.client_ca"
    ]


def test_files_that_cannot_be_read(files: Path) -> None:
    good = str(files / "broker.pem")
    found = listener(certificate=str(files / "none.pem"), key=str(files), client_ca="a\0b")
    assert [path.rpartition(".")[2] for path, _ in found] == ["certificate", "key", "client_ca"]
    assert "No such file" in found[0][1]
    assert "Is a directory" in found[1][1]
    assert "not a file name" in found[2][1]
    os.mkfifo(files / "pipe")
    opened = os.open(files / "pipe", os.O_RDWR)  # so that who opens it for reading does not wait
    assert "not a regular file" in listener(certificate=good, key=str(files / "pipe"))[0][1]
    os.close(opened)
    with (files / "big.pem").open("wb") as big:
        big.truncate(1 << 30)
    assert "not a PEM file" in listener(certificate=good, key=str(files / "big.pem"))[0][1]


def test_places_for_logs_and_captures(tmp_path: Path) -> None:
    def place(path: str) -> list[tuple[str, str]]:
        return list(check_files(Config(clusters=[], analysis=Analysis(capture=Rotated(path=path)))))

    assert place(str(tmp_path / "a.pcapng")) == []
    assert place("a.pcapng") == []
    assert "is not a directory" in place(str(tmp_path / "no" / "a.pcapng"))[0][1]
    assert "is a directory" in place(str(tmp_path))[0][1]
    assert "not a file name" in place("a\0b")[0][1]
    assert list(tmp_path.iterdir()) == [], "looking makes no file"


def test_files_to_watch() -> None:
    tls, broker = ListenerTls(certificate="c", key="k", client_ca="a"), BrokerTls(ca="b")
    clusters = [Cluster(listen=":1", listener_tls=tls), Cluster(listen=":2", broker_tls=broker, listener_tls=tls)]
    assert watched_files(Config(clusters=clusters)) == ["a", "b", "c", "k"]


def test_filters_are_loaded() -> None:
    uses = [FilterUse(use="rewrite_addresses"), FilterUse(use="no.such.module:Filter")]
    ((path, message),) = check_filters(Config(clusters=[Cluster(listen=":1", filters=uses)]))
    assert path == "clusters[0].filters[1].use"
    assert "no.such" in message


def test_filters_that_know_topics_by_id_are_listed_after_one_that_renames_topics() -> None:
    """A mask of customers-* before topic_prefix would not find a topic by id, whose name is team-a.customers-1."""
    prefix = FilterUse(use="topic_prefix", with_={"prefix": "team-a."})
    mask = FilterUse(use="mask", with_={"rules": [{"topics": ["customers-*"], "fields": ["$.email"]}]})
    by_login = FilterUse(use="deny", with_={"rules": [{"when": 'principal == "mallory"'}]})
    ((path, message),) = check_filters(Config(clusters=[Cluster(listen=":1", filters=[by_login, mask, prefix])]))
    assert path == "clusters[0].filters[1].use"
    assert message.startswith("mask has to be listed after topic_prefix")
    assert list(check_filters(Config(clusters=[Cluster(listen=":1", filters=[prefix, mask, by_login])]))) == []


AUDIT = {"file": {"path": "audit.jsonl"}}
TOPICS = {**AUDIT, "topics": ["orders-*"]}
DENY = {"rules": [{"when": 'principal == "mallory"'}]}
DENY_TOPIC = {"rules": [{"when": 'topic == "x"'}]}
DENY_FETCH = {"rules": [{"when": 'clientId == "x"', "api_name": ["Fetch"]}]}
MASK = {"rules": [{"fields": ["$.email"]}]}
MASK_TOPIC = {"rules": [{"fields": ["$.email"], "topics": ["a"]}]}
PUSHES = {**AUDIT, "api_name": ["PushTelemetry"]}
PREFIX = {"prefix": "team-a."}
LIMIT = {"limits": [{"by": "topic", "requests": 1}]}
DELAY = {"faults": [{"api": "CreateTopics", "delay": "1s"}]}
FAULT = {"faults": [{"api": "CreateTopics", "error": "POLICY_VIOLATION"}]}
FAULT_OF_TOPIC = {"faults": [{"api": "Produce", "topic": "orders", "error": "POLICY_VIOLATION"}]}
DROP = {"faults": [{"disconnect": True}]}


ORDERS = [
    # audit has to see what others answer; what they answer of other APIs it need not see
    (("deny", DENY), ("audit", AUDIT), "audit has to be listed before deny"),
    (("deny", {**DENY, "dry_run": True}), ("audit", AUDIT), None),
    (("deny", DENY_FETCH), ("audit", AUDIT), None),
    (("deny", DENY_FETCH), ("audit", TOPICS), "audit has to be listed before deny"),
    (("faults", FAULT), ("audit", AUDIT), "audit has to be listed before faults"),
    (("faults", DROP), ("audit", AUDIT), "audit has to be listed before faults"),
    (("faults", DELAY), ("audit", AUDIT), None),
    (("mask", MASK), ("audit", AUDIT), None),
    (("mask", MASK), ("audit", TOPICS), "audit has to be listed before mask"),
    (("telemetry", {"mode": "terminate"}), ("audit", AUDIT), None),
    (("telemetry", {"mode": "terminate"}), ("audit", PUSHES), "audit has to be listed before telemetry"),
    (("telemetry", {"mode": "tap"}), ("audit", PUSHES), None),
    (("headers", {}), ("audit", TOPICS), None),
    (("throttle", LIMIT), ("audit", TOPICS), None),
    (("audit", AUDIT), ("deny", DENY), None),
    (("audit", AUDIT), ("faults", FAULT), None),
    # topics by id have the brokers' names
    (("audit", AUDIT), ("topic_prefix", PREFIX), None),
    (("topic_prefix", PREFIX), ("audit", AUDIT), None),
    (("audit", TOPICS), ("topic_prefix", PREFIX), "audit has to be listed after topic_prefix"),
    (("deny", DENY), ("topic_prefix", PREFIX), None),
    (("deny", DENY_TOPIC), ("topic_prefix", PREFIX), "deny has to be listed after topic_prefix"),
    (("mask", MASK), ("topic_prefix", PREFIX), None),
    (("mask", MASK_TOPIC), ("topic_prefix", PREFIX), "mask has to be listed after topic_prefix"),
    (("headers", {}), ("topic_prefix", PREFIX), None),
    (("headers", {"topics": ["a"]}), ("topic_prefix", PREFIX), "headers has to be listed after topic_prefix"),
    (("throttle", LIMIT), ("topic_prefix", PREFIX), "throttle has to be listed after topic_prefix"),
    (("faults", FAULT), ("topic_prefix", PREFIX), None),
    (("faults", FAULT_OF_TOPIC), ("topic_prefix", PREFIX), "faults has to be listed after topic_prefix"),
    (("telemetry", {"mode": "tap"}), ("topic_prefix", PREFIX), None),
    # the rest may be in any order
    (("faults", FAULT), ("deny", DENY), None),
    (("throttle", LIMIT), ("deny", DENY_TOPIC), None),
    (("deny", DENY_TOPIC), ("throttle", LIMIT), None),
    (("headers", {}), ("deny", DENY_TOPIC), None),
    (("mask", MASK_TOPIC), ("deny", DENY_TOPIC), None),
    (("faults", FAULT), ("throttle", LIMIT), None),
    (("faults", FAULT), ("mask", MASK_TOPIC), None),
]


def test_the_order_of_two_filters() -> None:
    for first, second, words in ORDERS:
        uses = [FilterUse(use=use, with_=options) for use, options in (first, second)]
        found = check_filters(Config(clusters=[Cluster(listen=":1", filters=uses)]))
        expected = [] if words is None else [(f"clusters[0].filters[{int('before' in words)}].use", True)]
        assert [(path, message.startswith(str(words))) for path, message in found] == expected, (first, second)


def test_the_order_of_three_filters_is_said_as_a_whole() -> None:
    """What is said of two alone would send audit before topic_prefix."""
    uses = [("topic_prefix", PREFIX), ("deny", DENY_TOPIC), ("audit", TOPICS)]
    filters = [FilterUse(use=use, with_=options) for use, options in uses]
    ((_, message),) = check_filters(Config(clusters=[Cluster(listen=":1", filters=filters)]))
    assert message.endswith("list topic_prefix, audit, deny in this order")
    filters[1:] = reversed(filters[1:])
    assert list(check_filters(Config(clusters=[Cluster(listen=":1", filters=filters)]))) == []


def test_what_traces_need_is_looked_for(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problems(**settings: str) -> list[tuple[str, str]]:
        traces = Traces(otlp="https://c:1", **settings)  # type: ignore[arg-type]
        return list(check_files(Config(clusters=[Cluster(listen=":1")], traces=traces)))

    assert problems(ca=str(files / "ca.pem"), protocol="grpc") == []
    [(path, message)] = problems(ca=str(files / "missing"))
    assert (path, "No such file" in message) == ("traces.ca", True)
    monkeypatch.setattr("kproxy.config.files.find_spec", lambda name: None if name == "grpc" else True)
    assert problems() == []
    [(path, message)] = problems(protocol="grpc")
    assert (path, 'pip install "kproxy-kafka[otlp]"' in message) == ("traces.protocol", True)


def test_what_a_filter_that_exports_needs_is_looked_for(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problems(**settings: str) -> list[tuple[str, str]]:
        use = FilterUse(use="telemetry", with_={"forward": {"otlp": "https://c:1", **settings}})
        return list(check_filters(Config(clusters=[Cluster(listen=":1", filters=[use])])))

    assert problems(ca=str(files / "ca.pem"), protocol="grpc") == []
    (files / "empty.pem").write_bytes(b"")
    for file, words in (("missing", "No such file"), ("empty.pem", "does not contain a certificate in PEM")):
        [(path, message)] = problems(ca=str(files / file))
        assert (path, words in message) == ("clusters[0].filters[0].with.forward.ca", True)
    monkeypatch.setattr("kproxy.config.files.find_spec", lambda name: None if name == "grpc" else True)
    assert problems() == []
    [(path, message)] = problems(protocol="grpc")
    assert (path, 'pip install "kproxy-kafka[otlp]"' in message) == (
        "clusters[0].filters[0].with.forward.protocol",
        True,
    )


def test_the_directory_of_the_page_is_looked_at(tmp_path: Path) -> None:
    def problems(directory: str) -> list[tuple[str, str]]:
        return list(check_files(Config(clusters=[Cluster(listen=":1")], page=Page(spill=Spill(directory)))))

    assert problems(str(tmp_path)) == []
    (tmp_path / "file").touch()
    for wrong, said in (
        ("nowhere", "is not a directory: create it first"),
        ("file", "is not a directory"),
        ("a\0b", "no"),
    ):
        ((path, message),) = problems(str(tmp_path / wrong))
        assert path == "page.spill.directory" and said in message


def test_the_keys_that_a_filter_encrypts_by_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule: dict[str, Any] = {"topics": ["orders"], "key": "kek"}
    opened, read = list[KeySet](), KeySet._read
    monkeypatch.setattr(KeySet, "_read", lambda self: (opened.append(self), read(self))[1])

    def said(**options: str) -> list[tuple[str, str]]:
        keys = {"use": "file", "with": {"path": str(tmp_path / "keys"), **options}}
        use = FilterUse(use="encrypt", with_={"keys": keys, "rules": [rule]})
        return list(check_filters(Config(clusters=[Cluster(listen=":1", bootstrap=["b:1"], filters=[use])])))

    at = "clusters[0].filters[0].with.keys.with"
    assert said(passphrase="env:KPROXY_NOT_SET") == [
        (f"{at}.passphrase", "env:KPROXY_NOT_SET is empty: write the secret there")
    ]
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    by_file = {"key_file": str(tmp_path / "seal")}
    first = "put it back, or if there was none, make it with its first key: kproxy keys FILE --make KEY"
    assert said(**by_file) == [(at, f"{tmp_path}/keys: No such file or directory: {first}")]
    keys = KeySet(KeySetOptions(path=str(tmp_path / "keys"), **by_file))
    keys.make("other")
    missing = f"there is no key kek in {tmp_path}/keys: kproxy keys FILE --make kek, or name another one"
    assert said(**by_file) == [("clusters[0].filters[0].with.rules[0].key", missing)]
    keys.make("kek")
    assert said(**by_file) == []
    wrapped = b64encode(keys.new_data_key("other").wrapped).decode()
    rule["record_keys"] = {"key": "kek", "wrapped": wrapped}
    ((place, why),) = said(**by_file)
    assert place == "clusters[0].filters[0].with.rules[0].record_keys"
    assert why.startswith(f"version 1 of the key kek in {tmp_path}/keys has not wrapped this data key: ")
    rule["record_keys"] = {"key": "other", "wrapped": wrapped}
    opened.clear()
    assert said(**by_file) == []
    assert len(opened) == 1  # with a passphrase, each time takes a quarter of a second
    (tmp_path / "seal").write_bytes(bytes(32))
    assert said(**by_file) == [(at, f"the key file does not open {tmp_path}/keys, or the file is damaged")]

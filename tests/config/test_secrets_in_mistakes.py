"""A configuration that is wrong is told without its secrets: where each may stand, with the slips that put one into a message."""

import secrets
from pathlib import Path

import pytest

from kproxy.config.reading import read_config
from kproxy.errors import ConfigError
from tests.support.canaries import Canaries
from tests.support.command import kproxy
from tests.support.tls import certificates

CLUSTER = 'clusters: [{listen: ":19092", bootstrap: ["kafka:9092"]'
PEM = "-----BEGIN PRIVATE KEY-----\\nMIIEvQ%s\\n-----END PRIVATE KEY-----"
SLIPS = {
    "headers that are one text": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: "authorization: Bearer %s"}',
    "headers in a list": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: ["%s"]}',
    "a header that is a group": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: {x: "%s"}}}',
    "a header with a tag": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: !%s x}}',
    "a header that is an alias": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: *%s}}',
    "two anchors of one name": CLUSTER + "}]\ntraces: {otlp: &%s x, headers: {a: &%s y, b: *%s}}",
    "a header with a line feed": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: "%s\\n"}}',
    "a header of kproxy's own": CLUSTER + '}]\ntraces: {otlp: "http://c:4318", headers: {host: "%s"}}',
    "a collector with a password": CLUSTER + '}]\ntraces: {otlp: "http://user:%s@c:4318"}',
    "a collector with a password, and no port": CLUSTER + '}]\ntraces: {otlp: "http://user:%s@c"}',
    "traces that are one text": CLUSTER + '}]\ntraces: "http://user:%s@c:4318"',
    "a SOCKS proxy without a port": CLUSTER + ', through: "socks5://user:%s@proxy"}]',
    "a SOCKS proxy of an unknown kind": CLUSTER + ', through: "socks9://user:%s@proxy:1"}]',
    "a SOCKS proxy, with / in its password": CLUSTER + ', through: "socks5://user:a:b/%s@proxy:1"}]',
    "a SOCKS proxy, with : and / in its password": CLUSTER + ', through: "socks5://user:%s:b/c@proxy:1"}]',
    "a SOCKS proxy, with # in its password": CLUSTER + ', through: "socks5://user:%s#b@proxy:1"}]',
    "a SOCKS proxy with a path": CLUSTER + ', through: "socks5://user:%s@proxy:1/path"}]',
    "a SOCKS proxy in a list": CLUSTER + ', through: ["socks5://user:%s@proxy:1"]}]',
    "brokers with a login": 'clusters: [{listen: ":19092", bootstrap: ["user:%s@kafka:9092"]}]',
    "brokers as a URL": 'clusters: [{listen: ":19092", bootstrap: ["kafka://user:%s@kafka:9092"]}]',
    "brokers in one text": 'clusters: [{listen: ":19092", bootstrap: "user:%s@kafka:9092"}]',
    "a broker that is its listener": 'clusters: [{listen: "u:%s@k:1", bootstrap: ["u:%s@k:1"]}]',
    "a listener as a URL": 'clusters: [{listen: "https://user:%s@kafka:9092", bootstrap: ["kafka:9092"]}]',
    "a key in place of its file": CLUSTER + f', broker_tls: {{certificate: "CERTIFICATE", key: "{PEM}"}}}}]',
    "a key in place of a certificate": CLUSTER + f', listener_tls: {{certificate: "{PEM}", key: "CERTIFICATE"}}}}]',
    "a key in place of CAs": CLUSTER + f', broker_tls: {{ca: "{PEM}"}}}}]',
    "a key in place of a group": CLUSTER + f', broker_tls: "{PEM}"}}]',
    "a password that kproxy does not take": CLUSTER + ', broker_tls: {key_password: "%s"}}]',
    "a password without a space": CLUSTER + ", broker_tls: password:%s}]",
    "a login that kproxy does not take": CLUSTER + ', sasl: {username: x, password: "%s"}}]',
    "an environment that it does not take": CLUSTER + '}]\nenvironment: ["AWS_SECRET_ACCESS_KEY=%s"]',
    "headers of telemetry in one text": CLUSTER
    + ', filters: [{use: telemetry, with: {forward: {otlp: "http://c:1", headers: "authorization: %s"}}}]}]',
    "a header of telemetry with a line feed": CLUSTER
    + ', filters: [{use: telemetry, with: {forward: {otlp: "http://c:1", headers: {a: "%s\\n"}}}}]}]',
    "a collector of telemetry with a password": CLUSTER
    + ', filters: [{use: telemetry, with: {forward: {otlp: "http://user:%s@c:1"}}}]}]',
    "forward in one text": CLUSTER + ', filters: [{use: telemetry, with: {forward: "http://user:%s@c:1"}}]}]',
    "options of a filter in one text": CLUSTER + ', filters: [{use: headers, with: "token: %s"}]}]',
    "an option of a filter that does not exist": CLUSTER + ', filters: [{use: no.such:Filter, with: {token: "%s"}}]}]',
    "an option that a filter does not take": CLUSTER + ', filters: [{use: audit, with: {token: "%s"}}]}]',
    "an option of another kind": CLUSTER + ', filters: [{use: headers, with: {set: "token %s"}}]}]',
    "a file of an audit with a password": CLUSTER
    + ', filters: [{use: audit, with: {file: {path: "s3://key:%s@bucket/audit.jsonl"}}}]}]',
    "YAML that ends in a text": CLUSTER + '}]\ntraces: {headers: {authorization: "%s}}',
    "YAML with a tab": CLUSTER + "}]\ntraces:\n\theaders: %s",
    "YAML with a colon too much": CLUSTER + "}]\ntraces: a: %s: b",
    "a character that YAML does not have": CLUSTER + '}]\ntraces: {headers: {a: "%s\a"}}',
}


@pytest.mark.parametrize("slip", SLIPS)
def test_no_mistake_repeats_a_secret(slip: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    canary = Canaries(secrets.randbits(32))
    text = SLIPS[slip].replace("CERTIFICATE", str(certificates() / "client.pem"))
    assert "%s" in text
    file = tmp_path / "kproxy.yaml"
    file.write_text(text.replace("%s", canary(slip)), encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        read_config(str(file))
    assert kproxy("check", file) == 2
    said = capsysbinary.readouterr()
    assert told.value.mistakes
    assert sorted(canary.found_in({"error": repr(told.value).encode(), "output": said.out + said.err})) == []

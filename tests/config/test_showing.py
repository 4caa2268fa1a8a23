"""What `kproxy check` says would run, the configuration without secrets, and its JSON Schema."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from kproxy.cli.check import check
from kproxy.config.checks import check_ports, check_values
from kproxy.config.convert import Conversion, read_tree
from kproxy.config.reading import parse_config
from kproxy.config.schema import config_schema
from kproxy.config.showing import WITHHELD, redacted, render_summary
from kproxy.config.structs import (
    Addresses,
    Analysis,
    BrokerTls,
    Cluster,
    Config,
    FilterUse,
    ListenerTls,
    Rotated,
    Traces,
)
from kproxy.errors import ConfigError
from kproxy.filters.loading import BUILT_IN

TLS = ListenerTls(certificate="c", key="k")


def cluster_line(cluster: Cluster) -> str:
    return render_summary(Config(clusters=[cluster]))[0]


def test_clusters() -> None:
    plain = Cluster(listen=":19092", bootstrap=["a:1", "b:2"])
    assert cluster_line(plain) == "default: :19092 -> a:1, b:2; brokers on port 19093 + node id"
    listed = Cluster(listen=":19092", bootstrap=["a:1"], addresses=Addresses(node_ids=["1-3"]))
    assert cluster_line(listed) == "default: :19092 -> a:1; brokers on ports 19094 to 19096"
    behind = Addresses(advertise_port=443, advertise_brokers={"3": "three:8443"})
    words = "brokers on port 19093 + node id; advertised port 443 + node id; broker 3 advertised as three:8443"
    assert (
        cluster_line(Cluster(listen=":19092", bootstrap=["a:1"], addresses=behind))
        == f"default: :19092 -> a:1; {words}"
    )
    sni = Cluster(
        name="x",
        listen=":1",
        bootstrap=["a:1"],
        addresses=Addresses(mode="sni", broker_name="b-{node_id}.x", advertise_port=443),
        listener_tls=TLS,
        broker_tls=BrokerTls(),
        filters=[FilterUse(use="m:F")],
    )
    expected = "x: :1 -> a:1; brokers by name, b-{node_id}.x; advertised port 443; TLS from clients; TLS to brokers; filters m:F"
    assert cluster_line(sni) == expected
    transparent = Cluster(listen=":1", addresses=Addresses(mode="transparent"))
    assert (
        cluster_line(transparent)
        == "default: :1 -> the original destination of each connection; addresses unchanged (transparent)"
    )


def test_the_rest() -> None:
    config = Config(
        clusters=[], workers=2, admin=None, analysis=Analysis(log=Rotated(path="l"), capture=Rotated(path="c"))
    )
    assert render_summary(config) == ["2 workers, analysis to l and c", "no admin server"]
    assert render_summary(Config(clusters=[], analysis=Analysis(enabled=False)))[0] == "1 worker, no analysis"


def test_traces() -> None:
    lines = render_summary(
        Config(clusters=[Cluster(listen=":1", bootstrap=["a:1"])], traces=Traces(otlp="http://c:4318"))
    )
    assert "spans of 0.01 of the exchanges to http://c:4318" in lines


TEXT = """
clusters:
- name: orders
  listen: ":19092"
  bootstrap: ["kafka:9092"]
  through: "socks5://user:c4n@ry@proxy:1080"
  filters:
  - use: headers
    with: {set: {origin: kproxy}}
  - use: company.filters:Secret
    with: {url: "c4nary", limits: [{name: "c4nary"}]}
  - use: mask
    with: {salt: "c4nary", rules: [{topic: t, api_token: "c4nary", path: "$.card"}]}
admin: 127.0.0.1:9644
traces: {otlp: "http://collector:4318", headers: {x-team: "c4nary", authorization: "Bearer c4nary"}}
"""


def test_secrets_are_withheld_and_the_rest_is_shown() -> None:
    shown = redacted(msgspec.yaml.decode(TEXT, type=Config), BUILT_IN)
    assert "c4n" not in json.dumps(shown)
    (cluster,) = shown["clusters"]
    assert cluster["through"] == f"socks5://{WITHHELD}@proxy:1080"
    assert [use["with"] for use in cluster["filters"]] == [
        {"set": {"origin": "kproxy"}},
        {"url": WITHHELD, "limits": WITHHELD},
        {"salt": WITHHELD, "rules": [{"topic": "t", "api_token": WITHHELD, "path": "$.card"}]},
    ]
    assert (shown["traces"]["otlp"], shown["traces"]["headers"]) == ("http://collector:4318", WITHHELD)
    assert (shown["admin"], shown["metrics"]["series"], cluster["bootstrap"]) == (
        "127.0.0.1:9644",
        1000,
        ["kafka:9092"],
    )


README = Path(__file__).parents[2] / "README.md"
VALIDATOR = jsonschema.Draft202012Validator
CLUSTER = {"listen": ":19092", "bootstrap": ["kafka:9092"]}


def both(config: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the schema, and whether the parser, takes it."""
    try:
        parse_config(yaml.safe_dump(config), "x")
        taken = True
    except ConfigError:
        taken = False
    return VALIDATOR(config_schema()).is_valid(config), taken


IN_README = re.findall(r"```yaml\n(clusters:.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
IN_HELP = re.findall(r"^clusters:\n.*?(?=\n\n)", inspect.cleandoc(check.help or ""), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("example", "name"), list(zip([*IN_README, *IN_HELP], ("orders", "orders"), strict=True)))
def test_the_examples_of_readme_and_help_are_right(example: str, name: str) -> None:
    """But for what they name on a machine: files, and a filter of somebody's company."""
    assert list(VALIDATOR(config_schema()).iter_errors(yaml.safe_load(example))) == []
    conversion = Conversion()
    config = conversion.convert(read_tree(example, "kproxy.yaml"), Config)
    assert conversion.mistakes == []
    assert [*check_values(config), *check_ports(config)] == []
    assert config.clusters[0].name == name


def test_every_setting_has_a_description() -> None:
    """A sentence of its own, which an editor shows beside the name."""
    settings = {
        f"{part}.{name}": setting.get("description", "")
        for part, struct in config_schema()["$defs"].items()
        for name, setting in struct["properties"].items()
    }
    assert len(settings) > 50
    assert [name for name, description in settings.items() if not re.fullmatch(r".{10,}\.", description)] == []


def test_it_is_a_schema() -> None:
    VALIDATOR.check_schema(config_schema())
    assert "x-unit" not in str(config_schema())


RIGHT = [
    {},
    {"workers": 4, "admin": None, "outlive": True},
    {"timeouts": {"idle": "12m", "connect": 0.5, "frame": "500ms"}},
    {"limits": {"memory": "512MiB", "frame_size": 104857600}},
    {"analysis": {"snaplen": "1KiB", "log": {"path": "x", "most_size": "10MB", "most_age": "1h"}}},
    {"clusters": [{**CLUSTER, "addresses": {"node_ids": [0, "1-5"], "first_port": 20000}}]},
    {"clusters": [{**CLUSTER, "addresses": {"advertise_port": 443, "advertise_brokers": {"0": "a:443"}}}]},
]


def test_schema_and_parser_accept_the_same() -> None:
    for parts in RIGHT:
        assert both({"clusters": [CLUSTER], **parts}) == (True, True), parts


WRONG = [
    {"clusters": []},
    {"clusters": [{"bootstrap": ["a:1"]}]},
    {"worker": 4},
    {"workers": 0},
    {"workers": "4.5"},
    {"timeouts": {"idle": "12 minutes"}},
    {"limits": {"memory": "x"}},
    {"limits": {"memory": 0}},
    {"logs": "xml"},
    {"clusters": [{**CLUSTER, "name": "a b"}]},
    {"clusters": [{**CLUSTER, "name": "../x"}]},
    {"clusters": [{**CLUSTER, "name": ".."}]},
    {"clusters": [{**CLUSTER, "addresses": {"first_port": 70000}}]},
    {"clusters": [{**CLUSTER, "listener_tls": {"certificate": "x"}}]},
    {"clusters": [{**CLUSTER, "addresses": {"advertise_port": 0}}]},
    {"clusters": [{**CLUSTER, "addresses": {"advertise_brokers": {"0": ["a:443"]}}}]},
]


def test_schema_and_parser_refuse_the_same() -> None:
    for parts in WRONG:
        assert both({"clusters": [CLUSTER], **parts}) == (False, False), parts

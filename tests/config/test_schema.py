"""The schema is one by its own meta-schema, and agrees with the parser about what is right."""

import inspect
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kproxy.cli.check import check
from kproxy.config.checks import check_values
from kproxy.config.convert import Conversion
from kproxy.config.ports import check_ports
from kproxy.config.reading import parse_config
from kproxy.config.schema import config_schema
from kproxy.config.structs import Config
from kproxy.config.yaml_tree import read_tree
from kproxy.errors import ConfigError

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


def test_limits_say_over_what_they_hold() -> None:
    """Clients are counted in SharedLimits, buffers in the Worker of each process (proxy/worker.py, Forwarding._use)."""
    described = {name: one["description"] for name, one in config_schema()["$defs"]["Limits"]["properties"].items()}
    over_all = {name for name, text in described.items() if "over all workers" in text}
    assert over_all == {"connections", "connections_per_address", "connections_per_second"}
    assert {name for name, text in described.items() if "in each worker" in text} == {"memory"}
    assert {name for name, text in described.items() if text.startswith("Largest frame")} == {
        *{"frame_size", "unauthenticated_frame_size", "held_frame_size"}
    }
    assert described.keys() == over_all | {"memory", "frame_size", "unauthenticated_frame_size", "held_frame_size"}


def test_it_is_a_schema() -> None:
    VALIDATOR.check_schema(config_schema())
    assert "x-unit" not in str(config_schema())


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"workers": 4, "admin": None, "outlive": True},
        {"timeouts": {"idle": "12m", "connect": 0.5, "frame": "500ms"}},
        {"limits": {"memory": "512MiB", "frame_size": 104857600}},
        {"analysis": {"snaplen": "1KiB", "log": {"path": "x", "most_size": "10MB", "most_age": "1h"}}},
        {"clusters": [{**CLUSTER, "addresses": {"node_ids": [0, "1-5"], "first_port": 20000}}]},
        {"clusters": [{**CLUSTER, "addresses": {"advertise_port": 443, "advertise_brokers": {"0": "a:443"}}}]},
    ],
)
def test_schema_and_parser_accept_the_same(parts: dict[str, Any]) -> None:
    assert both({"clusters": [CLUSTER], **parts}) == (True, True)


@pytest.mark.parametrize(
    "parts",
    [
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
    ],
)
def test_schema_and_parser_refuse_the_same(parts: dict[str, Any]) -> None:
    assert both({"clusters": [CLUSTER], **parts}) == (False, False)

"""The guide in the docstring of kproxy.filters: its example runs, and does what it says."""

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

import kproxy.filters
from kproxy.cli.filters import filters
from kproxy.config.reading import parse_config
from kproxy.errors import ConfigError
from kproxy.filters.contract import Answer, Send
from kproxy.filters.loading import load_chain, load_filter
from kproxy.protocol import response_message
from tests.support.filtering import connection, make, part, request_frame

GUIDE = inspect.cleandoc(kproxy.filters.__doc__ or "")


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example's module where Python looks, and its configuration."""
    found = re.search(r"    # the module my_filters\n(.*?)    # kproxy.yaml\n(.*?)\n\n", GUIDE, re.DOTALL)
    assert found is not None
    (tmp_path / "my_filters.py").write_text(textwrap.dedent(found[1]), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    cluster = "clusters:\n- listen: :19092\n  bootstrap: [kafka:9092]\n"
    return cluster + textwrap.indent(textwrap.dedent(found[2]), "  ")


def created(*names: str) -> Any:
    topics = [part("CreateTopicsRequest", "CreatableTopic", name=name) for name in names]
    return request_frame("CreateTopicsRequest", 7, make("CreateTopicsRequest", topics=topics))


def test_the_example_lets_through_what_it_should(configuration: str) -> None:
    chain = load_chain(parse_config(configuration, "kproxy.yaml").clusters[0])
    allowed = created("team-a.orders")
    assert chain.on_request(connection(), allowed) == Send(allowed)
    refused = chain.on_request(connection(), created("team-a.orders", "orders"))
    assert isinstance(refused, Answer)
    message = response_message(19)
    assert message is not None
    topics: Any = message.decode(7, refused.frame[9:])
    assert [(topic.name, topic.error_code, topic.error_message) for topic in topics.topics] == [
        ("team-a.orders", 44, "names begin with team-a."),
        ("orders", 44, "names begin with team-a."),
    ]


def test_a_mistake_in_its_options_has_its_line(configuration: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(configuration.replace("prefix: team-a.", "prefx: 1"), "kproxy.yaml")
    line = next(n for n, text in enumerate(configuration.splitlines(), 1) if "prefix:" in text)
    assert {(mistake.line, mistake.path) for mistake in caught.value.mistakes} == {
        (line, "clusters[0].filters[0].with.prefx"),
        (line, "clusters[0].filters[0].with.prefix"),
    }


def test_the_filters_of_the_help_load() -> None:
    """Each with the options it shows."""
    (_, shown) = inspect.cleandoc(filters.help or "").split("filters:\n")
    uses = yaml.safe_load(shown)
    assert [load_filter(use["use"], use["with"]).name for use in uses] == [
        "audit",
        "deny",
        "mask",
        "throttle",
        "telemetry",
    ]

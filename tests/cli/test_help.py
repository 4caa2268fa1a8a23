"""The manual: every topic is there, in the terminal and as a page, and names what exists."""

import re
from pathlib import Path

import click
import pytest

from kproxy.cli.app import COMMANDS
from kproxy.cli.app import kproxy as program
from kproxy.manual import TOPICS, text
from kproxy.page.answers import manual_page
from kproxy.protocol.facts import facts
from tests.support.command import kproxy

MANUAL = Path(__file__).parents[2] / "kproxy" / "manual" / "topics"


def options_of(name: str) -> set[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return {word for option in command.params for word in (*option.opts, *option.secondary_opts)} | {"--help"}


def test_every_file_is_a_topic() -> None:
    assert {path.stem for path in MANUAL.glob("*.md")} == set(TOPICS)


def test_topics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("help") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[: len(TOPICS)]] == list(TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_rendered_for_terminals_and_browsers(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    heading = text(topic).splitlines()[0].removeprefix("# ")
    assert kproxy("help", topic) == 0
    assert capsys.readouterr().out.splitlines()[0].strip() == heading
    assert f"<h1>{heading}</h1>" in manual_page(topic)
    assert "<!-- table" not in text(topic)


@pytest.mark.parametrize("topic", TOPICS)
def test_commands_and_options_in_a_topic_exist(topic: str) -> None:
    for name, rest in re.findall(r"\bkproxy ([a-z]+)\b((?: [^\s`|]+)*)", text(topic)):
        if name in COMMANDS:
            unknown = set(re.findall(r"(?<=\s)--[a-z-]+", rest)) - options_of(name)
            assert not unknown, f"kproxy {name} has no {unknown}"


def test_versions_are_those_that_the_facts_decode() -> None:
    rows = {row[0]: row[1:] for row in re.findall(r"^\| (\w+) \|(.*)\|$", text("versions"), re.MULTILINE)}
    for api in facts().apis.values():
        for cell in rows.get(api.name, ("",))[0].split("|"):
            assert all(int(number) in api.versions for number in re.findall(r"\d+", cell))
    assert len(rows) >= 8


def test_a_command_is_helped_and_a_wrong_word_gets_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("help", "decode") == 0
    assert "Usage: kproxy decode" in capsys.readouterr().out
    assert kproxy("help", "conditons") == 2
    assert capsys.readouterr().err == "kproxy: there is no topic and no command 'conditons'; did you mean conditions?\n"

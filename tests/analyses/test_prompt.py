"""The prompt: completion knows the tables; queries end where they should; mistakes do not end it."""

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kproxy.analyses.prompt import HELP, SqlCompleter, run_prompt
from kproxy.errors import UsageError

COLUMNS = {"connections": ["connection_id", "capture"], "exchanges": ["connection_id", "api_name", "latency_ms"]}


def completed(text: str) -> list[str]:
    completer = SqlCompleter(COLUMNS, ["latest_of"])
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM ex", ["exchanges"]),
        ("SELECT * FROM ", ["connections", "exchanges"]),
        ("SELECT 1 FROM exchanges JOIN c", ["connections"]),
        ("SELECT exchanges.lat", ["latency_ms"]),
        ("SELECT 1 FROM exchanges AS e WHERE e.", ["connection_id", "api_name", "latency_ms"]),
        ("FROM exchanges SELECT lat", ["latency_ms", "latest_of"]),
        ("FROM connections SELECT api", []),
        ("SEL", ["SELECT"]),
        ("SELECT nothing.x", []),
        ("SELECT ", []),
    ],
)
def test_completion(text: str, found: list[str]) -> None:
    assert completed(text) == found


def typed(text: str) -> tuple[list[str], list[str]]:
    """What was run and what was said after someone typed the text."""
    run: list[str] = []
    said: list[str] = []

    def show(query: str) -> None:
        if "wrong" in query:
            raise UsageError("line 1, column 1: wrong")
        run.append(query)

    with create_pipe_input() as keys:
        keys.send_text(text)
        run_prompt(COLUMNS, [], show, said.append, terminal=(keys, DummyOutput()))
    return run, said


def test_a_query_ends_at_a_semicolon_and_may_have_lines() -> None:
    run, said = typed("SELECT 1\rFROM exchanges;\rSELECT 2;\r\x04")
    assert [" ".join(query.split()) for query in run] == ["SELECT 1 FROM exchanges;", "SELECT 2;"]
    assert said == [HELP]


def test_a_mistake_is_said_and_the_prompt_goes_on() -> None:
    run, said = typed("wrong;\rSELECT 3;\rexit\r")
    assert run == ["SELECT 3;"]
    assert said[1:] == ["line 1, column 1: wrong"]


def test_commands_describe_the_tables() -> None:
    _, said = typed("\\d\r\\d exchanges\r\\d nope\r\\x\r\\q\r")
    assert said[1].splitlines()[1].split() == ["exchanges", "3", "columns"]
    assert said[2:] == ["connection_id\napi_name\nlatency_ms", "there is no table 'nope'; \\d lists them", HELP]

"""Where events go: what lines are made."""

from kproxy.output.jsonl import event_line
from kproxy.pipeline.line_output import Format, renderer


def test_json_lines_are_the_decoded_log() -> None:
    assert renderer(Format.JSONL, verbose=False, on_terminal=False) is event_line

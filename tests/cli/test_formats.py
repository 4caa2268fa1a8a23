"""The formats of kproxy decode: each has an output, and says whether it can use a decoded log."""

from pathlib import Path

import pytest

from kproxy.cli.formats import OUTPUTS, Format, OutputOptions, text_renderer
from kproxy.output.jsonl import event_line
from tests.support.traffic import CAPTURES, golden_exchanges


def options(output_format: Format, path: Path) -> OutputOptions:
    return OutputOptions(output_format, path, [CAPTURES / "05-admin.pcap"])


@pytest.mark.parametrize("output_format", Format)
def test_every_format_has_an_output_that_knows_what_it_needs(output_format: Format, tmp_path: Path) -> None:
    with OUTPUTS[output_format](options(output_format, tmp_path / "out"))() as output:
        assert output.needs_frames is output_format.needs_frames


def test_json_lines_are_the_decoded_log(tmp_path: Path) -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    with OUTPUTS[Format.JSONL](options(Format.JSONL, tmp_path / "out"))() as output:
        output.write(exchange, None)
    assert (tmp_path / "out").read_bytes() == event_line(exchange)


def test_text_is_a_line_and_verbose_text_a_tree_below_it() -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    line = text_renderer(verbose=False, on_terminal=False)(exchange, None)
    tree = text_renderer(verbose=True, on_terminal=False)(exchange, None)
    assert line.count(b"\n") == 1
    assert tree.startswith(line) and tree.count(b"\n") > 2

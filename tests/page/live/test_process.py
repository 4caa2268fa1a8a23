"""The process of the live page: what it opens, that it ends with its input, and its memory."""

import subprocess
import sys

import msgspec
import pytest

from kproxy.output.tables import TABLES
from kproxy.page.live.files import ROWS
from kproxy.page.live.process import FEED, HTTP
from kproxy.pipeline.output import Source
from kproxy.proxy.analyzer.page_feed import connect
from tests.bench import live_page
from tests.support.kafka.processes import eventually

MODULE = ["-m", "kproxy.page.live"]
STARVED = ["-c", "import kproxy.page.live.__main__ as made; made.PATIENCE_S = 0; made.main()"]
# Bytes: of a row of exchanges, of connections and of topic_activity, in columns of 8 bytes with texts; and of what is known of a
# connection, as tracemalloc has it
ROW = 8 * sum(len(TABLES[name].columns) for name in ("exchanges", "connections", "topic_activity"))
LEAST_KNOWN = 480
FAULT = """
from kproxy.page.live.process import _end
try:
    {}["what traffic says"]
except KeyError as fault:
    _end(fault)
"""


def test_a_fault_is_told_by_its_kind_and_place() -> None:
    ended = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "\nkproxy page: KeyError in <string>, line 4\n")


@pytest.mark.long
@pytest.mark.parametrize("how", [MODULE, STARVED], ids=["as ever", "without CPU for its imports"])
def test_the_process_ends_with_its_input(how: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("live")  # short enough for the path of a socket
    words = [sys.executable, *how]
    arguments = {"folder": str(folder), "name": "a proxy", "token": "t", "hosts": []}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(arguments) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert {path.name for path in folder.iterdir()} == {FEED, HTTP}
        process.stdin.close()
        assert process.wait(60) == 0
    assert not folder.exists(), "the supervisor, which was killed, cannot remove it"


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "most", "numbers"),
    [("short connections", 16 << 20, 240_000), ("topics with long names", 8 << 20, 100_000)],
)
def test_memory_is_flat_once_the_bound_is_reached(
    tmp_path_factory: pytest.TempPathFactory, what: str, most: int, numbers: int
) -> None:
    """Connections with an exchange each; Produce to 10,000 topics, each with a name of 200 characters.

    What is kept goes up and down by what leaves at once, a file's exchanges with their connections: within the bound on frames
    and connections, and within the rows of files that are not final, which are in memory a second time. The latter are each more
    than twice as many as those behind them, so less than two files' worth. Of an exchange and its connection that had left, the
    smallest part alone, what is known of the connection, would be more than that after the first mark.
    """
    is_short = what == "short connections"
    kinds = live_page.exchanges() if is_short else live_page.to_topics(10_000)
    folder = tmp_path_factory.mktemp("live")
    page = live_page.Page(folder, most)
    feed = connect(str(folder / FEED), dict, lambda: 0)
    feed.start_source(Source(1, "worker 0"))
    try:
        memory, first = [], 40_000
        for sent in (range(1, first + 1), range(first + 1, numbers // 2), range(numbers // 2, numbers + 1)):
            live_page.send(feed, sent, kinds, is_short)
            eventually(
                lambda: feed.flush() or page.get("source")["seen"] == feed.seen, patience=600, what="all of them"
            )
            memory.append(page.memory_mb())
        source = page.get("source")
        assert source["exchanges"] + source["left"] + source["dropped"] == numbers
        assert source["left"] > 0
        up_and_down = most + 2 * ROWS * ROW
        assert not is_short or (numbers - first) * LEAST_KNOWN > 2 * up_and_down, "else a leak would not be seen"
        assert max(memory) < memory[0] + up_and_down / (1 << 20), memory
        assert page.get("exchanges?limit=1")["total"] == source["exchanges"]
    finally:
        feed.close()
        page.stop()

"""A live store and what feeds it: captures, read as the analyzer reads taps, through the analyzer's end of a feed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kproxy.page.live.process import FEED, listen
from kproxy.page.live.store import Live
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer.page_feed import PageFeed, connect
from tests.page.asking import ORDERS


@contextmanager
def live(folder: Path, most: int = 1 << 28) -> Iterator[Live]:
    """A live store that listens in a folder."""
    with Live("a proxy", listen(folder, FEED), most) as made:
        made.start()
        yield made


def feed_of(folder: Path) -> PageFeed:
    """The analyzer's end of a feed to the store in a folder."""
    return connect(str(folder / FEED), dict, lambda: 0)


def send(feed: PageFeed, capture: Path = ORDERS) -> None:
    """Send what is in a capture."""
    run = Run(Options(), [feed])
    with open_input(capture) as source:
        for _ in run.read(source):
            pass
    sent(feed)


def sent(feed: PageFeed) -> None:
    """Send what waits."""
    feed.flush()
    while feed.waiting and not feed.has_ended:
        feed.flush()

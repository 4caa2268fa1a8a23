"""Choose the Store for the sources that a person names, and check that they can be opened together."""

from collections.abc import Sequence
from pathlib import Path

from kproxy.analyses.sources import Kind, look_at
from kproxy.errors import UsageError
from kproxy.page.recorded import MOST_KEPT, Recorded
from kproxy.page.store import Store
from kproxy.page.tables import Tabled
from kproxy.pipeline.run import Options


def open_sources(
    sources: Sequence[Path],
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    most: int = MOST_KEPT,
    spill: Path | None = None,
) -> Store:
    """Return the store of these sources; captures and logs are read while it is used. Raises UsageError for what is no source."""
    looked_at = [look_at(source) for source in sources]
    kinds = {source.kind for source in looked_at}
    if len(kinds) > 1:
        raise UsageError("directories of tables cannot be opened together with captures or logs")
    if kinds == {Kind.TABLES}:
        return Tabled([source.path for source in looked_at])
    store = Recorded([source.path for source in looked_at], options, most, spill)
    try:
        store.start()
    except UsageError:
        store.close()
        raise
    return store

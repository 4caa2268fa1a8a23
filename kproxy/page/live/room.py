"""Room: keeps rows, frames and connections of a live store within their bounds, in memory and in a directory.

When memory is full, the oldest exchanges are written to the directory, or removed if there is none. They are also removed when
the directory is full, or cannot be written to because its disk is full.
"""

import os

from kproxy.page.blocks import Blocks
from kproxy.page.live.exchanges import LiveExchanges
from kproxy.page.live.files import LiveFiles
from kproxy.page.spilling import SpillFiles
from kproxy.proxy.page_records import Shown

MOST_EXCHANGES = 20_000_000  # in the directory: a view of rows has 8 bytes of memory for each
CONNECTIONS_SHARE = 2  # connections may take one in so many bytes of memory: they are not written to the directory


class Room:
    """Removes the oldest exchanges, or writes them to the directory, when ``make`` is called; used by one thread.

    Args:
        exchanges, blocks, files: all that is kept.
        most: bytes that may be in memory.
        spill: files in a directory; None: there is none.
        most_spilled: bytes that may be in the directory.
    """

    def __init__(
        self,
        exchanges: LiveExchanges,
        blocks: Blocks[Shown],
        files: LiveFiles,
        most: int,
        spill: SpillFiles | None = None,
        most_spilled: int = 0,
    ) -> None:
        self._exchanges = exchanges
        self._blocks = blocks
        self._files = files
        self._most = most
        self._spill = spill
        self._most_spilled = most_spilled
        self.first = 1  # number of the first exchange that is kept
        self.trouble = ""  # why nothing can be written to the directory, as a sentence

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._blocks.size + self._files.size + self._exchanges.size

    @property
    def spilled(self) -> int:
        """Bytes in the directory."""
        return self._files.spilled + (0 if self._spill is None else self._spill.size)

    def make(self) -> None:
        """Make room. Files removed a moment ago may still be in memory for queries (LiveFiles): at most half of the bytes."""
        most = max(self._most - self._files.lingering, self._most // 2)
        while self.size - self._files.lingering > most and self._files.in_memory > 1:
            if not self._has_spilled():
                self._remove_oldest()
        while len(self._files.parts) > 1 and (
            self.spilled > self._most_spilled
            or self._exchanges.size > self._most // CONNECTIONS_SHARE
            or self._blocks.last - self.first > MOST_EXCHANGES
        ):
            self._remove_oldest()

    def _has_spilled(self) -> bool:
        """Write the oldest exchanges in memory to the directory; return False if that is not possible."""
        if self._spill is None:
            return False
        try:
            self._blocks.spill_before(self._files.spill_oldest(self._spill))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            self.trouble = f"older exchanges cannot be written to {self._spill.folder} and leave: {why}"
            return False
        self.trouble = ""
        return True

    def _remove_oldest(self) -> None:
        self.first = self._files.remove_oldest()
        self._blocks.drop_before(self.first)
        self._exchanges.forget_before(self.first)

"""Read a key log file, which may still grow while the capture is read."""

from pathlib import Path

from kproxy.errors import OptionError

READ_SIZE = 1 << 20


class KeyLogFile:
    """Returns a key log's bytes piece by piece, including those written later.

    Raises:
        OptionError: it cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise OptionError(f"keylog {path}: cannot be opened: {error.strerror}") from error

    def more(self) -> bytes:
        """Return the next bytes; empty if the file has no more at present."""
        try:
            return self._file.read(READ_SIZE)
        except OSError as error:
            raise OptionError(f"keylog {self._path}: cannot be read: {error.strerror}") from error

    def reopen(self) -> None:
        """Open the file again at the same position, as a forked process shares the position with its parent."""
        position = self._file.tell()
        self._file.close()
        self._file = self._path.open("rb")
        self._file.seek(position)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

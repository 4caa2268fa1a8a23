"""A key log as a file, which may still be written while the capture is read."""

from pathlib import Path

from kproxy.errors import OptionError

READ_SIZE = 1 << 20


class KeyLogFile:
    """Gives a key log's bytes piece by piece, and what was written to it since.

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
        """Read the next bytes; none when the file has no more at present."""
        try:
            return self._file.read(READ_SIZE)
        except OSError as error:
            raise OptionError(f"keylog {self._path}: cannot be read: {error.strerror}") from error

    def reopen(self) -> None:
        """Open it again at the same position: a process that was forked shares the position with its parent."""
        position = self._file.tell()
        self._file.close()
        self._file = self._path.open("rb")
        self._file.seek(position)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

"""PageAddress: shows the address of the page to the person who runs kproxy, and keeps its token out of logs that are shipped."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from kproxy.proxy.logs import log

STANDARD_ERROR = 2


class PageAddress:
    """The address of the page, as it was last shown.

    On a terminal the log has it. Elsewhere logs are collected and read by many, so a file that only this user may read has it
    (mode 0600, in $XDG_RUNTIME_DIR, else in the folder for temporary files), and the log names the file.
    """

    def __init__(self) -> None:
        self._shown = ("", "")
        self._file: Path | None = None

    def tell(self, event: str, url: str) -> None:
        """Log where the page is, unless that was logged before; an empty *url*: there is no page."""
        if self._shown == (event, url):
            return
        self._shown = event, url
        self.remove()
        if not url:
            return
        if os.isatty(STANDARD_ERROR):
            log("info", event, url=url)
            return
        try:
            self._file = _written(url)
        except OSError as error:
            reason = f"its address could not be written to a file: {error.strerror}; let kproxy write to /tmp"
            log("warning", event, reason=reason)
        else:
            log("info", event, file=str(self._file))

    def remove(self) -> None:
        """Remove the file, if there is one."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.unlink()


def _written(url: str) -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    where = folder if folder and os.access(folder, os.W_OK) else tempfile.gettempdir()
    fd, path = tempfile.mkstemp(
        prefix="kproxy-page-", suffix=".url", dir=where
    )  # mode 0600, and a name that cannot be guessed
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"{url}\n")
    return Path(path)

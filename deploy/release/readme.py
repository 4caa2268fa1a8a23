"""Draw the picture of README.md; `--check` says whether it is what kproxy prints today.

    pip install -e '.[report]' && python deploy/release/readme.py

The picture is a terminal in which COMMANDS were run.
"""

import argparse
import difflib
import fcntl
import html
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("terminal.svg")
COLUMNS = 118  # of the terminal
GROUP, OLD = "captures/03-classic-rebalance-range.pcap", "captures/08-old-broker-0.9-format0.pcap"
COMMANDS = {  # and how many lines of each are shown
    f"""kproxy decode --where 'apiName == "JoinGroup" || size(errors) > 0' {GROUP}""": 18,
    f"kproxy report --only rebalances {GROUP}": 11,
    f"kproxy report --target 4.0 {OLD}": 6,
}
FOUND = 4  # exit status of a report with findings, which is no failure here
TEXT = re.compile(r'<text class="[^"]*" x="[^"]*" y="([^"]*)"[^>]*>([^<]*)</text>')
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # loaded from another host: pictures in pages may not
DARK, LIGHT = "48 4f 58,ff 7b 72,7e e7 87,e2 b4 54,79 c0 ff,d2 a8 ff,76 e3 ea,c9 d1 d9", "16 1b 22,c9 d1 d9"


def colours(text: str) -> list[tuple[int, int, int]]:
    """Convert colours in hexadecimal, separated by commas, to the tuples that rich takes."""
    return [(code[0], code[1], code[2]) for code in map(bytes.fromhex, text.split(","))]


def main() -> int:
    """Draw the picture, or with --check compare it with the one in the repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; print the difference and exit 1 if the picture is out of date",
    )
    checked: bool = parser.parse_args().check
    picture = drawn(recorded())
    if not checked:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    stale = difference(PICTURE.name, shown(PICTURE.read_text(encoding="utf-8")), shown(picture))
    print("\n".join(stale) or "it is current")
    return 1 if stale else 0


def recorded() -> str:
    """Run COMMANDS and return what a terminal shows of them, with its escape sequences."""
    text = ""
    for command, most in COMMANDS.items():
        lines = printed(command).splitlines()
        more = ["\x1b[2m…\x1b[0m"] if len(lines) > most else []
        text += "\n".join([f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m", *lines[:most], *more, "\n"])
    return text.rstrip()


def printed(command: str) -> str:
    """Run a command on a terminal of COLUMNS columns and return what it prints. Raises CalledProcessError if it fails."""
    program, *words = shlex.split(command)
    assert program == "kproxy"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    settings = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    environment = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    run = [sys.executable, "-m", "kproxy", *words]
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - no terminal: on one, a slow machine would show a progress bar
    with errors, subprocess.Popen(run, cwd=ROOT, env=environment | settings, stdout=theirs, stderr=errors) as process:
        os.close(theirs)
        data = b""
        with suppress(OSError), open(ours, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor; EIO at its end
            while more := stream.read(65_536):
                data += more
        process.wait()
        errors.seek(0)
        data += errors.read()  # the summary
    if process.returncode not in (0, FOUND):
        raise subprocess.CalledProcessError(process.returncode, command, data)
    return data.decode().replace("\r\n", "\n")


def drawn(text: str) -> str:
    """Draw the terminal as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(text), soft_wrap=True)
    return FONT.sub(
        "", console.export_svg(title="kproxy", theme=TerminalTheme(*colours(LIGHT), colours(DARK)), unique_id="kproxy")
    )


def shown(picture: str) -> str:
    """Return the lines of text in a picture."""
    cells = [(float(y), html.unescape(cell).replace("\xa0", " ")) for y, cell in TEXT.findall(picture)]
    return "".join(f"{''.join(cell for _, cell in line)}\n" for _, line in groupby(cells, key=lambda cell: cell[0]))


def difference(name: str, kept: str, made: str) -> list[str]:
    """Return the lines that differ; none if the two texts are the same."""
    lines = difflib.unified_diff(kept.splitlines(), made.splitlines(), name, f"{name} made now", lineterm="", n=0)
    return list(lines)


if __name__ == "__main__":
    sys.exit(main())

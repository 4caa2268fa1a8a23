"""What a workload wrote down: what it chose, what it did, what clients reported, and so what is true."""

from pathlib import Path
from typing import Any

import msgspec


class Truth(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an analysis may say, or with *must* has to say.

    *row*: columns with the values they have to have, for one row; a list: one of these; text that begins with ~ is a regular
    expression. *at*: Unix seconds at which it begins, give or take *within*. *times*: rows that must be there. *never*: the
    contrary, such rows are wrong.
    """

    analysis: str
    row: dict[str, Any] = {}
    at: float | None = None
    within: float = 1.0
    must: bool = True
    times: int = 1
    never: bool = False


class Action(msgspec.Struct, frozen=True):
    """Something the workload did, in words, at a time (Unix seconds)."""

    at: float
    what: str


class ClientReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client: what it was configured with, and what it reported itself."""

    client_id: str
    library: str
    role: str
    settings: dict[str, Any]
    reported: dict[str, Any] = {}


class Manifest(msgspec.Struct, omit_defaults=True):
    """A workload. *healthy*: nothing critical, and at most one warning, may be said about it.

    *records*: the report is to look at the contents of records, with these *schemas* (file names, and their texts).
    *draws*: what *seed* decided, in words.
    """

    name: str
    about: str
    cluster: str
    release: str
    nodes: int
    healthy: bool
    started_at: float
    ended_at: float
    clients: list[ClientReport]
    actions: list[Action]
    truths: list[Truth]
    records: bool = False
    schemas: dict[str, str] = {}
    seed: int | None = None
    draws: list[str] = []

    def write(self, file: Path) -> None:
        """Write it as JSON that people can read."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def read_manifests(folder: Path) -> dict[Path, Manifest]:
    """Captures of a folder and what is true about them."""
    files = sorted(folder.glob("*.json"))
    found = {file: msgspec.json.decode(file.read_bytes(), type=Manifest) for file in files}
    return {next(file.parent.glob(f"{file.stem}.pcap*")): manifest for file, manifest in found.items()}

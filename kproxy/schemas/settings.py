"""Where schemas come from, as plain values: the same options in every command, sent to other processes as they are."""

from pathlib import Path

from msgspec import Struct

from kproxy.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kproxy.schemas.store import Schema, Schemas

PARTS = ("key", "value")


class SchemaSources(Struct, frozen=True):
    """What a person names.

    Args:
        registries: URLs.
        folders: of files of schemas.
        chosen: TOPIC.key=FILE or TOPIC.value=FILE: the schema of all records of a topic.
    """

    registries: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    chosen: tuple[str, ...] = ()

    def open(self) -> "Schemas":
        """Read the folders and files; registries are asked later. Raises UsageError."""
        from kproxy.schemas.folder import read_folder  # noqa: PLC0415 - most runs have none
        from kproxy.schemas.registry import Registry  # noqa: PLC0415
        from kproxy.schemas.store import Schemas, Source  # noqa: PLC0415

        chosen = dict(map(_chosen, self.chosen))
        sources: list[Source] = [read_folder(folder) for folder in self.folders]
        return Schemas([*sources, *map(Registry, self.registries)], chosen)


def _chosen(option: str) -> "tuple[tuple[str, str], Schema]":
    from kproxy.schemas.folder import read_file  # noqa: PLC0415

    place, equals, file = option.partition("=")
    topic, dot, part = place.rpartition(".")
    if not (equals and dot and topic and file) or part not in PARTS:
        raise UsageError(f"--schema {option}: write TOPIC.value=FILE or TOPIC.key=FILE")
    return (topic, part), read_file(Path(file))

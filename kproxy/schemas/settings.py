"""Where schemas come from, as plain values: options of a command, or ``schemas`` in the configuration of `kproxy run`.

They are sent to other processes as they are; names of files are in them, and no secret.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct, convert, structs

from kproxy.encryption.services.settings import KeySettings
from kproxy.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.encryption.reading import OutputKeys
    from kproxy.schemas.store import Schema, Schemas

PARTS = ("key", "value")
WAIT_S = 5.0  # for the answer of a registry


class RegistryOptions(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A registry that speaks Confluent's REST API."""

    url: Annotated[
        str, Meta(description="http:// or https://, without a login; that of Apicurio ends in /apis/ccompat/v7.")
    ]
    topics: Annotated[
        list[str], Meta(description='Topics whose schemas it has, by name or pattern ("orders-*"); empty: all.')
    ] = []
    login: Annotated[
        str | None,
        Meta(
            description="File with USER:PASSWORD. null: SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO of the environment, if set."
        ),
    ] = None
    token: Annotated[
        str | None,
        Meta(
            description="File with a bearer token. null: SCHEMA_REGISTRY_BEARER_AUTH_TOKEN of the environment, if set."
        ),
    ] = None
    ca: Annotated[
        str | None, Meta(description="File with the CAs that sign its certificate, PEM; null: the system's.")
    ] = None
    certificate: Annotated[
        str | None, Meta(description="File with the certificate that it is shown, PEM; needs key.")
    ] = None
    key: Annotated[
        str | None, Meta(description="File with the private key of the certificate, without a password.")
    ] = None


class SchemaSources(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the schemas of keys and values come from; before them come those in the traffic itself."""

    topics: Annotated[
        dict[str, str],
        Meta(
            description="Schemas of topics: orders.value or orders.key -> a file .avsc, .proto, .json or .desc; "
            "#NAME behind it names a message of Protobuf."
        ),
    ] = {}
    folders: Annotated[
        list[str],
        Meta(
            description="Folders of schemas, in files named by subject or id, or as kproxy schemas --save wrote them."
        ),
    ] = []
    registries: Annotated[
        list[RegistryOptions], Meta(description="Registries, asked in this order. Nothing but these hosts is asked.")
    ] = []
    keys: Annotated[
        KeySettings | None,
        Meta(
            description="The key service with which values that the filter encrypt has encrypted are shown; null: they are not."
        ),
    ] = None

    @property
    def has_any(self) -> bool:
        """Return whether there is a source other than the traffic."""
        return bool(self.topics or self.folders or self.registries)

    @classmethod
    def of_options(
        cls,
        registries: Iterable[str] = (),
        folders: "Iterable[str | Path]" = (),
        topics: Iterable[str] = (),
        *,
        keys: KeySettings | None = None,
    ) -> "SchemaSources":
        """Return what the options --registry, --schemas, --schema and --keys of a command name. Raises UsageError."""
        pairs = [one.partition("=") for one in topics]
        for place, equals, file in pairs:
            if not file or not _place(place):
                raise UsageError(f"--schema {place}{equals}{file}: write TOPIC.value=FILE or TOPIC.key=FILE")
        return cls(
            topics={place: file for place, _, file in pairs},
            folders=list(map(str, folders)),
            registries=list(map(_registry, registries)),
            keys=keys,
        )

    def absolute(self) -> "SchemaSources":
        """Return the same, with names of folders and files that another process can open, wherever it was started."""

        from pathlib import Path  # noqa: PLC0415 - a worker does without

        def path(name: str | None) -> str | None:
            return None if name is None else str(Path(name).absolute())

        files = ("login", "token", "ca", "certificate", "key")
        return SchemaSources(
            topics={place: str(Path(file).absolute()) for place, file in self.topics.items()},
            folders=[str(Path(folder).absolute()) for folder in self.folders],
            registries=[
                structs.replace(one, **{name: path(getattr(one, name)) for name in files}) for one in self.registries
            ],
            keys=self.keys and self.keys.absolute(),
        )

    def open(self, wait_s: float = WAIT_S) -> "Schemas":
        """Read the folders and files; registries are asked later. Raises UsageError.

        Args:
            wait_s: how long a question waits for the answer of a registry; an answer that comes later is there for the next.
        """
        from pathlib import Path  # noqa: PLC0415 - a worker does without

        from kproxy.schemas.folder import imports_of, read_folder  # noqa: PLC0415 - most runs have none
        from kproxy.schemas.registry import Registry  # noqa: PLC0415
        from kproxy.schemas.store import Schemas, Source  # noqa: PLC0415

        chosen = dict(_chosen(place, file) for place, file in self.topics.items())
        sources: list[Source] = [read_folder(Path(folder)) for folder in self.folders]
        sources += [Registry(options, wait_s) for options in self.registries]
        files = zip(self.topics.values(), chosen.values(), strict=True)
        sources += [imports_of(schema, Path(file).parent) for file, schema in files if schema.references]
        return Schemas(sources, chosen, None if self.keys is None else _record_keys(self.keys))


def _record_keys(settings: KeySettings) -> "OutputKeys":
    from kproxy.encryption.reading import OutputKeys  # noqa: PLC0415 - most runs have none
    from kproxy.encryption.services import key_service  # noqa: PLC0415

    return OutputKeys(key_service(settings))


def _registry(option: str) -> RegistryOptions:
    """Parse "URL topics=orders-*,bills login=FILE"; words other than the URL are named as in the configuration."""
    import shlex  # noqa: PLC0415 - for the options of commands only

    names = {field.name for field in structs.fields(RegistryOptions)} - {"url"}
    values: dict[str, str | list[str]] = {}
    try:
        words = shlex.split(option)
    except ValueError:
        words = [option]
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            values[name] = value.split(",") if name == "topics" else value
        elif "url" in values:
            raise UsageError(f"--registry: write 'URL NAME=VALUE ...'; the names are {', '.join(sorted(names))}")
        else:
            values["url"] = word
    if "url" not in values:
        raise UsageError("--registry: it has no URL")
    return convert(values, RegistryOptions)


def _chosen(place: str, file: str) -> "tuple[tuple[str, str], Schema]":
    from pathlib import Path  # noqa: PLC0415

    from kproxy.schemas.folder import read_file  # noqa: PLC0415
    from kproxy.schemas.formats import SchemaType  # noqa: PLC0415

    if (parts := _place(place)) is None:
        raise UsageError(f"{place}: write TOPIC.value or TOPIC.key")
    path, hash_sign, message = file.rpartition("#")
    if not hash_sign or Path(file).exists():
        return parts, read_file(Path(file))
    schema = read_file(Path(path))
    if schema.type != SchemaType.PROTOBUF:
        raise UsageError(f"{place}={file}: only messages of Protobuf are named behind #")
    return parts, replace(schema, message=message)


def _place(text: str) -> tuple[str, str] | None:
    """Return the topic and the part that "orders.value" names; None for another text."""
    topic, _, part = text.rpartition(".")
    return (topic, part) if topic and part in PARTS else None

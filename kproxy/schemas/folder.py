"""A folder of schemas, or one file: what a capture is read with later, elsewhere, without a network.

The name of a file is the subject (orders-value.avsc) or the id of its schema (12.avsc). The suffix .avsc means Avro, .proto
Protobuf, .json JSON Schema. ``save`` also writes schemas.json, which lists the id, subject, version and references of each file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kproxy.errors import UsageError
from kproxy.schemas.formats import MOST_TEXT, SchemaType
from kproxy.schemas.framings import GlobalId
from kproxy.schemas.store import MOST_SCHEMAS, Collection, Schema, schema_of

SUFFIXES = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF, ".json": SchemaType.JSON}
INDEX = "schemas.json"


def read_folder(folder: Path) -> Collection:
    """Read all schemas of a folder. Raises UsageError with the file that cannot be read."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder of schemas")
    collection = Collection(str(folder))
    index = folder / INDEX
    listed = _listed(index) if index.is_file() else []
    for fields in listed:
        text = _text(folder / Path(str(fields.get("file"))).name)
        try:
            collection.add(schema_of({**fields, "schema": text}))
        except (KeyError, ValueError, TypeError) as error:
            raise UsageError(f"{index}: {error} of {fields.get('file')}") from error
    names = {fields.get("file") for fields in listed}
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.name not in {INDEX, *names}]
    for path in files[:MOST_SCHEMAS]:
        schema = read_file(path)
        is_id = path.stem.isdigit()
        named = {"id": int(path.stem)} if is_id else {"subject": path.stem}
        collection.add(Schema(schema.text, schema.type, **named))
    return collection


def read_file(path: Path) -> Schema:
    """Read one schema; its type is that of the suffix. Raises UsageError."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a schema is a file {', '.join(SUFFIXES)}")
    return Schema(_text(path), SUFFIXES[path.suffix])


def save(schemas: Iterable[Schema], folder: Path) -> int:
    """Write schemas into a folder, so that ``read_folder`` finds them by id and subject; return how many. Raises UsageError."""
    rows: list[dict[str, Any]] = []
    suffixes: dict[str, str] = {kind: suffix for suffix, kind in SUFFIXES.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, schema in enumerate(dict.fromkeys(schemas), 1):
            # an id that is a text may come from a record, and lead out of the folder
            is_global = isinstance(schema.id, GlobalId)
            stem = schema.id if isinstance(schema.id, int) and not is_global else f"schema-{number}"
            name = f"{stem}{suffixes.get(schema.type, '.txt')}"
            (folder / name).write_text(schema.text, encoding="utf-8")
            references = [
                {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
            ]
            known: dict[str, Any] = {"id": schema.id, "subject": schema.subject, "version": schema.version}
            known |= {"isGlobalId": True} if is_global else {}
            rows.append({"file": name, "schemaType": schema.type, **known, "references": references})
        (folder / INDEX).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return len(rows)


def _listed(index: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(index.read_text(encoding="utf-8"))
        return [dict(row) for row in rows]
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{index} is not a list of schemas: {error}") from error


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_TEXT:
            raise UsageError(f"{path} is larger than {MOST_TEXT:,} bytes, too large for a schema")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error

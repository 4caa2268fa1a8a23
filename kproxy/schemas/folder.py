"""A folder of schemas, or one file: what a capture is read with later, elsewhere, without a network.

The name of a file is the subject (orders-value.avsc) or the id of its schema (12.avsc). The suffix .avsc means Avro, .proto
Protobuf, .json JSON Schema; .desc, .protoset and .binpb are sets of descriptors, whose last file is the schema. Files .proto find
those that they import below the folder. ``save`` also writes schemas.json, which lists the id, subject, version and references
of each file.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kproxy.errors import UsageError
from kproxy.schemas.formats import DESCRIPTOR_SET, MOST_TEXT, SchemaType
from kproxy.schemas.framings import GlobalId
from kproxy.schemas.store import MOST_SCHEMAS, Collection, Reference, Schema, schema_of

DESCRIPTORS = (".desc", ".protoset", ".binpb")  # what protoc --descriptor_set_out writes
IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;')
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
    suffixes = (*SUFFIXES, *DESCRIPTORS)
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in suffixes and path.name not in {INDEX, *names}]
    for path in files[:MOST_SCHEMAS]:
        schema = read_file(path, folder)
        if path.suffix == ".proto":
            collection.add(replace(schema, subject=path.relative_to(folder).as_posix()))  # for those that import it
        is_id = path.stem.isdigit()
        collection.add(replace(schema, id=int(path.stem)) if is_id else replace(schema, subject=path.stem))
    return collection


def read_file(path: Path, root: Path | None = None) -> Schema:
    """Read one schema; its type is that of the suffix. Raises UsageError.

    *root*: the folder to which imports of Protobuf are relative; None: that of the file.
    """
    if path.suffix in DESCRIPTORS:
        return Schema(DESCRIPTOR_SET + b64encode(_data(path)).decode(), SchemaType.PROTOBUF)
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a schema is a file {', '.join((*SUFFIXES, *DESCRIPTORS))}")
    text = _text(path)
    names = [name for name in IMPORT.findall(text) if ((root or path.parent) / name).is_file()]
    is_proto = path.suffix == ".proto"
    return Schema(text, SUFFIXES[path.suffix], references=tuple(Reference(name, name, 0) for name in names if is_proto))


def imports_of(schema: Schema, root: Path) -> Collection:
    """Return the files that a schema of Protobuf imports, and those that they import, below a folder. Raises UsageError."""
    collection, waiting = Collection(str(root)), [schema]
    while waiting:
        for reference in waiting.pop().references:
            if reference.subject not in collection.subjects:
                imported = read_file(root / reference.name, root)
                collection.add(replace(imported, subject=reference.subject))
                waiting.append(imported)
    return collection


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
        return _data(path).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _data(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_TEXT:
            raise UsageError(f"{path} is larger than {MOST_TEXT:,} bytes, too large for a schema")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error

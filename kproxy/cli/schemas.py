"""kproxy schemas: which schemas the records of captures were written with, and which of them are missing."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from kproxy.cli.endings import DAMAGED, DONE
from kproxy.cli.options import KEYLOG, SEPARATE, form_option, pop_schemas, schema_options, source_path
from kproxy.errors import CaptureError, UsageError
from kproxy.output.escaping import printable
from kproxy.pipeline.sink import Sink

MISSING = 4  # exit status, see endings.py
MOST_SAID = 5  # reasons why values stayed encrypted
COLUMNS = ("topic", "part", "framing", "id", "subject", "version", "type", "records", "problem")


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=source_path)
@schema_options
@click.option("--save", metavar="DIR", type=Path, help="Write the schemas that are used into this folder.")
@form_option()
@SEPARATE
@KEYLOG
def schemas(paths: tuple[Path, ...], save: Path | None, form: str, **others: Any) -> int:
    """List the schemas of records, and save them.

    A row for each topic, key or value, and schema that records of a capture were written with, and how many have it.
    Schemas come from the captures themselves, where a registry's topic _schemas is in them, and from --schemas,
    --schema and --registry. --save writes those that are used into a folder, with which the captures can be read later
    without a registry.

    \b
    kproxy schemas trace.pcapng
    kproxy schemas --registry http://localhost:8081 --save schemas trace.pcapng
    kproxy decode -v --records --schemas schemas trace.pcapng

    \b
    Exit status:
      0  all were found
      2  wrong usage
      3  a capture is damaged: the rest was read
      4  a schema is missing, or does not describe its records
    """
    from kproxy.pipeline.reading import Reader  # noqa: PLC0415 - after --help
    from kproxy.pipeline.run import Options  # noqa: PLC0415
    from kproxy.schemas.viewer import SchemaViewer  # noqa: PLC0415

    options = Options(keylog=others["keylog"], records=True, schemas=pop_schemas(others))
    try:
        opened = Reader(paths, options, strict=False, separate=others["separate"])
    except CaptureError as error:  # none of the files is a capture, or one is not there
        raise UsageError(str(error)) from None
    with opened as reader:
        for event in reader:
            reader.read_records(event)
        viewer = SchemaViewer.of(reader.viewers)
        unopened = reader.viewers.unopened if reader.viewers is not None else Counter[str]()
    rows = viewer.rows()
    if form == "json":
        page = json.dumps(rows, indent=1)
    else:
        page = _table(rows) if rows else f"No record {'that could be read ' if unopened else ''}names a schema."
    with Sink(None, live=False) as sink:
        sink.write(f"{page}\n".encode("utf-8", "backslashreplace"))
    for why, count in unopened.most_common(MOST_SAID):
        fields = "encrypted key or value was" if count == 1 else "encrypted keys or values were"
        print(f"kproxy: {count:,} {fields} not looked into: {printable(why, 400)}", file=sys.stderr)
    for sentence in viewer.schemas.faults:
        print(f"kproxy: {sentence}", file=sys.stderr)
    if save is not None:
        from kproxy.schemas.folder import save as save_in  # noqa: PLC0415

        count = save_in(viewer.needed(), save)
        print(f"{count} {'schema is' if count == 1 else 'schemas are'} in {save}", file=sys.stderr)
    for sentence in reader.damages:
        print(f"kproxy: {sentence}", file=sys.stderr)
    return DAMAGED if reader.damages else MISSING if any(row["problem"] for row in rows) else DONE


def _table(rows: list[dict[str, Any]]) -> str:
    """Render rows, without the columns that all of them leave empty."""
    columns = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    texts = [columns, *(["" if row[name] is None else str(row[name]) for name in columns] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts
    )

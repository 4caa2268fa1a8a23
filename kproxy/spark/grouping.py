"""Which input files are one capture: those with packets of the same connections, as rotated files and those of two hosts have.

    for file in group_files(context, files, separate=False): ...       file.others: the files that are one capture with it

Each file is read once, up to the headers of its packets, unless there is only one. Files without such connections stay alone,
and so do decoded logs, files that cannot be read, and files that are not on a disk.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kproxy.capture import Capture
from kproxy.capture.segments import Survey
from kproxy.errors import CaptureError
from kproxy.spark.files import InputFile, grouped, is_remote, open_file
from kproxy.spark.local import LocalContext, TasksKilled

if TYPE_CHECKING:
    from kproxy.spark.local import Context

BUNDLE = 32 << 20  # bytes of files that a task looks at


class Looked(Struct):
    """What is known of a file: when its first packet was captured, and which connections it has."""

    file: InputFile
    first_ns: int = 0
    connections: list[bytes] = []


def group_files(context: "Context", files: list[InputFile], *, separate: bool) -> list[InputFile]:
    """Put the files of each capture together, in the order of their first packets.

    *separate*: files of different folders are different captures, even if the addresses of their connections are the same.
    """
    here = [file for file in files if not is_remote(file.path)]
    if len(here) < 2:
        return files
    bundles = [[file] for file in here] if isinstance(context, LocalContext) else list(grouped(here, BUNDLE))
    try:
        looked: list[Looked] = context.parallelize(bundles, len(bundles)).flatMap(look_at_all).collect()
    except TasksKilled as error:
        looked = [*error.done, *(Looked(file) for [file] in error.lost)]
    return sorted([*put_together(looked, separate=separate), *(file for file in files if is_remote(file.path))])


def look_at_all(bundle: list[InputFile]) -> list[Looked]:
    """Run as a task."""
    return [look(file) for file in bundle]


def look(file: InputFile) -> Looked:
    """Find the connections of a file."""
    survey, first_ns, number = Survey(), 0, 1
    try:
        with open_file(file.path) as source:
            for batch in source.batches() if isinstance(source, Capture) else ():
                first_ns = first_ns or batch.time_at(0)
                survey.receive(batch, number)
                number += batch.count
    except CaptureError:  # the decode names the file
        return Looked(file)
    return Looked(file, first_ns, list(survey.connections))


def put_together(looked: list[Looked], *, separate: bool) -> Iterator[InputFile]:
    """Yield the first file of each capture; its ``others`` are those that share connections with it, or with each other."""
    joined = list(range(len(looked)))  # number of a file -> that of another one of its capture; of the last one: itself
    first_with: dict[tuple[str, bytes], int] = {}

    def last(number: int) -> int:
        while joined[number] != number:
            joined[number] = number = joined[joined[number]]
        return number

    for number, one in enumerate(looked):
        folder = str(PurePath(one.file.path).parent) if separate else ""
        for key in one.connections:
            joined[last(number)] = last(first_with.setdefault((folder, key), number))
    captures: dict[int, list[Looked]] = {}
    for number, one in enumerate(looked):
        captures.setdefault(last(number), []).append(one)
    for files in captures.values():
        first, *others = (one.file for one in sorted(files, key=lambda one: (one.first_ns, one.file)))
        yield replace(first, others=tuple(others))

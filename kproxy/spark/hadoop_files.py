"""Input files in file systems that only Spark's Hadoop knows (s3a://, hdfs://, viewfs://, wasbs://): found, read, copied.

Python workers reach Hadoop only through Spark. So Spark passes a task its file completely, in memory (``read_whole``), and the
driver copies a capture that is to be divided to a folder that all tasks see (``copy``).
"""

from typing import TYPE_CHECKING, Any

from kproxy.spark.files import WILDCARDS, InputFile

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

SCHEMES_OF_PYARROW = ("s3", "gs", "gcs", "abfs", "abfss", "file")
MOST_IN_MEMORY = 512 << 20  # bytes of a file that is passed to a task in memory
SPECIAL = "\\{}[]*?,^"


def is_hadoop(name: str) -> bool:
    """Whether a name belongs to a file system of Hadoop, not to a disk or pyarrow."""
    scheme, colon, _ = name.partition("://")
    return bool(colon) and scheme not in SCHEMES_OF_PYARROW


def find(context: "SparkContext", name: str) -> list[InputFile]:
    """The files that a name stands for: a file, a folder or a pattern, as in find_files."""
    system, place = _system(context, name)
    if any(letter in name for letter in WILDCARDS) and not system.exists(place):
        statuses = list(system.globStatus(place) or ())
    else:
        statuses = [system.getFileStatus(place)] if system.exists(place) else []
    below = [list(system.listStatus(each.getPath())) if each.isDirectory() else [each] for each in statuses]
    files = [status for some in below for status in some if status.isFile()]
    return [
        InputFile(status.getPath().toString(), status.getLen(), status.getModificationTime() * 1_000_000)
        for status in files
        if len(files) == 1 == len(statuses) or status.getPath().getName()[0] not in "_."
    ]


def read_whole(context: "SparkContext", files: list[InputFile]) -> "RDD[tuple[InputFile, bytes]]":
    """Return an RDD of the files with their bytes."""
    by_path = {file.path: file for file in files}
    empty = context.parallelize([(file, b"") for file in files if not file.size], 1)
    paths = [_pattern(file.path) for file in files if file.size]
    if not paths:
        return empty
    given = context.binaryFiles(",".join(paths), len(paths)).filter(lambda pair: pair[0] in by_path)
    return given.map(lambda pair: (by_path[pair[0]], bytes(pair[1]))).union(empty)


def copy(context: "SparkContext", file: InputFile, target: str) -> None:
    """Copy a file to a path of the driver's disk."""
    system, place = _system(context, file.path)
    jvm: Any = context._jvm
    system.copyToLocalFile(False, place, jvm.org.apache.hadoop.fs.Path(f"file://{target}"), True)


def _system(context: "SparkContext", name: str) -> tuple[Any, Any]:
    jvm: Any = context._jvm
    place = jvm.org.apache.hadoop.fs.Path(name)
    return place.getFileSystem(context._jsc.hadoopConfiguration()), place


def _pattern(path: str) -> str:
    """Return a pattern for a path, since Hadoop splits names at commas, even quoted. The caller drops what else it matches."""
    return "".join("?" if letter in SPECIAL else letter for letter in path)

"""The output directory, on a disk and through Hadoop: the same files."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.spark.folders import Folder, HadoopFolder, LocalFolder, open_folder
from tests.support.spark import view_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(params=["disk", "hadoop"])
def folder(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path) -> Folder:
    name = str(tmp_path) if request.param == "disk" else view_of(spark, tmp_path)
    return open_folder(spark.sparkContext, name)


def test_files_are_written_read_moved_and_removed(folder: Folder, tmp_path: Path) -> None:
    assert isinstance(folder, LocalFolder) == (folder.root == str(tmp_path))
    assert folder.read("a/b/c.json") is None
    for text in (b"one", b"another \xff"):
        folder.write("a/b/c.json", text)
        assert folder.read("a/b/c.json") == (tmp_path / "a/b/c.json").read_bytes() == text
    folder.write("a/b/d.json", b"d")
    folder.move("a/b/d.json", "x/y/c.json")
    folder.move("a/b/c.json", "x/y/c.json")  # over the other
    assert folder.read("x/y/c.json") == b"another \xff"
    (tmp_path / "x" / "y" / "_hidden").touch()
    assert folder.files("x", depth=1) == ["x/y/c.json"]
    assert folder.files("nowhere") == folder.files("x") == []
    (tmp_path / "x" / "y" / "_hidden").unlink()
    for hidden in (tmp_path / "x" / "y").glob(".*"):
        hidden.unlink()  # checksums of Hadoop's local file system
    folder.remove("x/y/c.json")
    folder.remove("x/y/c.json")
    assert not (tmp_path / "x").exists()
    folder.write("t/u/v", b"")
    folder.remove_tree("t")
    folder.remove_tree("t")
    assert not (tmp_path / "t").exists()


def test_a_file_that_was_not_yet_replaced_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    """A driver that is killed between the two steps of a replacement leaves the new file beside its place."""
    folder = HadoopFolder(spark.sparkContext, view_of(spark, tmp_path))
    folder.write("entry.json.tmp", b"new")
    assert folder.read("entry.json") == b"new"

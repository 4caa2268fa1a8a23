"""Changes of files as editors, certificate renewals and Kubernetes make them."""

import asyncio
import os
from pathlib import Path

import pytest

from kproxy.proxy.supervisor.file_watch import FileWatch, stamp


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "f"
    file.write_text("one", encoding="utf-8")
    return file


def watch(*files: Path) -> FileWatch:
    watching = FileWatch()
    watching.watch(str(file) for file in files)
    return watching


def looks(watching: FileWatch, count: int = 3) -> list[list[str]]:
    return [found for found in (watching.look() for _ in range(count)) if found]


def test_nothing_is_told_of_what_stays(file: Path) -> None:
    assert looks(watch(file)) == []
    assert stamp(str(file)) is not None
    assert stamp(str(file) + "x") is None
    assert stamp("a\0b") is None


def test_a_file_written_over_is_told_once(file: Path) -> None:
    watching = watch(file)
    file.write_text("longer", encoding="utf-8")
    assert looks(watching) == [[str(file)]]


def test_a_file_put_in_its_place_is_told_though_size_and_time_are_the_same(file: Path, tmp_path: Path) -> None:
    watching = watch(file)
    other = tmp_path / "other"
    other.write_text("two", encoding="utf-8")
    status = file.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    assert looks(watching) == [[str(file)]]


def test_a_mounted_secret_changes_by_a_link_far_from_it(tmp_path: Path) -> None:
    """Kubernetes: tls.crt -> ..data/tls.crt, ..data -> ..2026_01, and ..data is replaced by another link."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_text(name, encoding="utf-8")
    data, file = tmp_path / "..data", tmp_path / "tls.crt"
    data.symlink_to("old")
    file.symlink_to("..data/tls.crt")
    watching = watch(file)
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(data)
    assert looks(watching) == [[str(file)]]


def test_while_it_goes_on_changing_nothing_is_told(file: Path) -> None:
    watching = watch(file)
    for size in range(5):
        file.write_text("x" * size, encoding="utf-8")
        assert watching.look() == []
    assert looks(watching) == [[str(file)]]


def test_a_file_that_comes_and_one_that_goes(file: Path, tmp_path: Path) -> None:
    watching = watch(file, tmp_path / "later")
    (tmp_path / "later").touch()
    file.unlink()
    assert sorted(looks(watching)[0]) == sorted([str(file), str(tmp_path / "later")])


def test_watching_others_as_well_forgets_no_change(file: Path, tmp_path: Path) -> None:
    watching = watch(file)
    file.write_text("changed", encoding="utf-8")
    watching.watch([str(file), str(tmp_path / "other")])
    assert looks(watching) == [[str(file)]]


def test_it_calls_when_something_has_changed(file: Path) -> None:
    async def main() -> list[str]:
        told: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        following = asyncio.ensure_future(watching.follow(told.set_result))
        file.write_text("changed", encoding="utf-8")
        try:
            return await asyncio.wait_for(told, 20)
        finally:
            following.cancel()

    watching = watch(file)
    assert asyncio.run(main()) == [str(file)]

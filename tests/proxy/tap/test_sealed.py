"""A memfd of a size that nobody can change."""

import os
import tempfile

import pytest

from kproxy.proxy.tap.sealed import create_sealed, sealed_size


@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_the_size_cannot_be_changed(size: int) -> None:
    fd = create_sealed("test", 8192)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
        assert sealed_size(fd) == 8192
        assert os.pread(fd, 8192, 0) == bytes(8192)
    finally:
        os.close(fd)


def test_a_memfd_that_can_shrink_is_refused() -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    try:
        with pytest.raises(ValueError, match="not sealed"):
            sealed_size(fd)
    finally:
        os.close(fd)


def test_another_file_is_refused() -> None:
    with tempfile.TemporaryFile() as file, pytest.raises(ValueError, match=r"no memfd|not sealed"):
        sealed_size(file.fileno())


def test_untouched_pages_cost_nothing() -> None:
    fd = create_sealed("test", 64 << 20)
    try:
        assert os.fstat(fd).st_blocks == 0
    finally:
        os.close(fd)

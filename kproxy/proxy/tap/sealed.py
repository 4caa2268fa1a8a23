"""memfds whose size is sealed: no process that has one can shrink it, which would kill others that map it with SIGBUS."""

import fcntl
import os

SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def create_sealed(name: str, size: int) -> int:
    """Make a memfd of *size* zero bytes; pages cost memory once they are touched. Raises OSError."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SIZE_SEALS | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd


def sealed_size(fd: int) -> int:
    """Return the size of a memfd made by create_sealed. Raises ValueError for any other file, OSError for no file."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError as error:
        raise ValueError(f"file descriptor {fd} is no memfd: {error.strerror}") from error
    if seals & SIZE_SEALS != SIZE_SEALS:
        raise ValueError(f"the size of file descriptor {fd} is not sealed")
    return os.fstat(fd).st_size

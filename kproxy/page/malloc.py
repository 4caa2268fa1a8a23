"""Have malloc keep large blocks apart, so that freed memory around them is returned to the operating system."""

import ctypes

M_MMAP_THRESHOLD = -3  # malloc.h of glibc
APART = 8_192  # bytes


def keep_large_blocks_apart() -> None:
    """Have malloc map each large block by itself (mallopt(3)), in all of this process from now on.

    The compressed blocks that stay are allocated between large buffers that are freed. On the common heap these freed buffers
    would take several times the bytes of the blocks, as glibc raises the threshold with each of them. Without glibc nothing
    changes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, APART)

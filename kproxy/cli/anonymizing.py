"""``--anonymize``: pseudonyms by a key from a file, or by one made now."""

import os
from pathlib import Path

from kproxy.errors import UsageError
from kproxy.output.rewriting.anonymize import Anonymizer
from kproxy.output.rewriting.pseudonyms import Pseudonyms

SMALLEST_KEY, LARGEST_KEY = 16, 4096  # bytes


def anonymizer(key_file: Path | None) -> Anonymizer:
    """Return an Anonymizer with the key in the file, or with a new key. Raises UsageError if the file holds no key."""
    if key_file is None:
        return Anonymizer(Pseudonyms(os.urandom(SMALLEST_KEY)))
    try:
        with key_file.open("rb") as file:
            key = file.read(LARGEST_KEY)
    except OSError as error:
        raise UsageError(f"{key_file} cannot be read: {error.strerror}") from error
    if len(key) < SMALLEST_KEY:
        raise UsageError(f"{key_file} has {len(key)} bytes; a key has at least {SMALLEST_KEY}")
    return Anonymizer(Pseudonyms(key))

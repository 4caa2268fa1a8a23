"""The text files of the package are found and are UTF-8."""

import pytest

from kproxy.protocol.data_files import read_data_file


@pytest.mark.parametrize("name", ["facts.txt", "releases.txt", "error_meanings.txt", "special_values.txt"])
def test_they_are_read(name: str) -> None:
    assert read_data_file(name).endswith("\n")


def test_one_that_does_not_exist() -> None:
    with pytest.raises(FileNotFoundError):
        read_data_file("nothing.txt")

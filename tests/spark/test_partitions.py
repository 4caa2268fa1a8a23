"""The options of the data source: what is wrong is named."""

import pytest

from kproxy.errors import UsageError
from kproxy.spark.partitions import Settings


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "a", "table": "exchange"}, "there is no table 'exchange'; the tables are connections,"),
        ({"path": "a", "tabel": "x"}, "format kproxy has no option tabel"),
        ({"path": "a", "mode": "fast"}, "mode is permissive or failfast, not fast"),
        ({"path": "a", "partitions": "-1"}, "partitions is a number, not -1"),
        ({"path": "a", "bodies": "yes"}, "bodies is true or false, not yes"),
        ({"table": "exchanges"}, "needs a path"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Settings.read(options)
    assert Settings.read({"PATH": "a", "Table": "records"}).rows.records

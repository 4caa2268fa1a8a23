"""Which Parquet files cannot be read to their end: looked for once a question has failed, as DuckDB rarely names them."""

import re
from collections.abc import Iterable
from pathlib import Path

from kproxy.analyses.duck import SAFE
from kproxy.analyses.loading import quoted
from kproxy.page.work import Cancelled, Work
from kproxy.protocol.expressions import first_sentence

MEMORY = "192MB"
MOST_SECONDS = 10.0  # for all files: it looks at every value
NAMED = re.compile(r'^.*Failed to read file "[^"]*": ')  # what DuckDB writes before what is wrong


def damages_of(paths: Iterable[Path]) -> list[str]:
    """A sentence for each file that cannot be read, as far as there was time to look."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    found: list[str] = []
    work = Work(MOST_SECONDS)
    with duckdb.connect(config=SAFE) as connection:  # one of its own: a fault may have made the other one useless
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        for path in paths:
            try:
                with work.ended_by(connection.interrupt):
                    connection.execute(f"SELECT max(hash(e)) FROM read_parquet({quoted(str(path))}) e").fetchall()
            except Cancelled:
                break
            except duckdb.OutOfMemoryException:
                continue  # that says nothing of the file
            except duckdb.Error as error:
                found.append(f"{path} is damaged: {NAMED.sub('', first_sentence(error))}")
    return found

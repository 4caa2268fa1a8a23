"""A query that DuckDB ends because it is interrupted, as it is by Ctrl-C, ends the program as Ctrl-C does."""

import threading

import duckdb
import pytest

from kproxy.analyses.interrupts import ends_at_interrupt

ENDLESS = "SELECT sum(a.range * b.range) AS total FROM range(10000000) AS a, range(10000000) AS b"


def test_a_query_that_is_interrupted() -> None:
    ended = threading.Event()
    with duckdb.connect() as connection:

        def interrupt() -> None:
            while not ended.wait(0.05):
                connection.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt), ends_at_interrupt():
                connection.execute(ENDLESS).fetchall()
        finally:
            ended.set()
            thread.join()


def test_what_duckdb_says_of_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ends_at_interrupt():
        raise RuntimeError("Query interrupted")


def test_what_a_program_ends_itself_in_another_thread_is_no_ctrl_c() -> None:
    found: list[BaseException] = []

    def query() -> None:
        try:
            with ends_at_interrupt():
                raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [duckdb.InterruptException]


def test_other_errors_are_themselves() -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.CatalogException), ends_at_interrupt():
        connection.execute("FROM nowhere")

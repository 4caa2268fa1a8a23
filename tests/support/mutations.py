"""Which changes to the rules the scenes do not notice: `python -m tests.support.mutations [FINDING ...]`.

Each finding is run with one thing changed at a time: a comparison (> and >=, = and <>), a condition left out, a number one more,
an element of a list left out, min for max, sum for max, a count of all values for one of different values. A mutant for which all
that the scenes of the finding expect holds is printed: it is the same rule in other words, or a scene is missing.
"""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
from sqlglot import exp, parse_one

from kproxy.analyses import library
from kproxy.analyses.analysis import View
from kproxy.analyses.duck import Database
from kproxy.analyses.parameters import bind
from kproxy.analyses.translate import to_duckdb
from kproxy.output.tables import TABLES
from tests.support.scenes import SCENES, Rows, Scene
from tests.support.scenes.crowd import crowd
from tests.support.scenes.scene import example_fits

OTHERS: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.Min: exp.Max,
    exp.Max: exp.Min,
    exp.Sum: exp.Max,
}


class Mutant(NamedTuple):
    """A changed query, and what was changed."""

    words: str
    sql: str


def mutants(sql: str) -> Iterator[Mutant]:
    """Every query that differs in one thing."""
    original = parse_one(sql, read="duckdb")
    for number, node in enumerate(original.walk()):
        for name, change in _changes(node):
            copy = original.copy()
            found = list(copy.walk())[number]
            before = found.sql("duckdb")
            parent = found.parent.sql("duckdb")[:160] if found.parent else ""
            found.replace(change(found))
            yield Mutant(f"{name}: {before[:100]}   in   {parent}", copy.sql("duckdb"))


def _changes(node: exp.Expression) -> Iterator[tuple[str, Any]]:
    other = OTHERS.get(type(node))
    in_condition = node.find_ancestor(exp.Where, exp.Having, exp.Case) is not None
    if isinstance(node, exp.Min | exp.Max) and node.this.name == "software":
        return  # of one client there is one, or it does not matter which
    if other is not None and (in_condition or isinstance(node, exp.Min | exp.Max | exp.Sum)):
        yield other.__name__, lambda found: other(**found.args)
    if isinstance(node, exp.And) and in_condition:
        yield "left only", lambda found: found.left.copy()
        yield "right only", lambda found: found.right.copy()
    if isinstance(node, exp.Literal) and not node.is_string and in_condition:
        yield (
            "one more",
            lambda found: exp.Literal.number(float(found.this) + 1 if "." in found.this else int(found.this) + 1),
        )
    if isinstance(node, exp.In) and len(node.expressions) > 1:
        for n in range(len(node.expressions)):
            yield f"without {node.expressions[n].sql()}", lambda found, n=n: _without(found, n)
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
        yield "not distinct", lambda found: exp.Count(this=found.this.expressions[0].copy())


def _without(found: exp.In, n: int) -> exp.In:
    return exp.In(this=found.this.copy(), expressions=[e.copy() for i, e in enumerate(found.expressions) if i != n])


def survivors(database: Database, finding: str) -> list[Mutant]:
    """The mutants of a finding that all of its scenes take for the finding."""
    analysis = library.load()[finding]
    values = bind(analysis, {})
    alive = list(mutants(to_duckdb(analysis.sql, analysis.path)))
    views = [view for view in library.views_needed(analysis, library.load_views()) if view.stored]
    connection = database.connection
    for scene in (each for each in SCENES if each.finding == finding):
        for bad in (True, False):
            tables = Rows()
            scene.play(tables, bad)
            _load(connection, views, tables)
            alive = [
                mutant for mutant in alive if _passes(connection, mutant.sql, values, scene, tables if bad else None)
            ]
    _load(connection, views, crowd())
    return [mutant for mutant in alive if _passes(connection, mutant.sql, values, scene, None)]


def _load(connection: duckdb.DuckDBPyConnection, views: list[View], tables: Rows) -> None:
    for name in TABLES:
        connection.execute(f"DELETE FROM {name}")
        if tables.tables[name]:
            connection.from_arrow(tables.arrow(name)).insert_into(name)
    for view in views:
        connection.execute(f"DELETE FROM {view.name}")
        connection.execute(f"INSERT INTO {view.name} {to_duckdb(view.sql, view.path)}")


def _passes(
    connection: duckdb.DuckDBPyConnection, sql: str, values: dict[str, Any], scene: Scene, tables: Rows | None
) -> bool:
    try:
        rows = connection.sql(sql, params=values).to_arrow_table().to_pylist()
    except duckdb.Error:
        return False
    if tables is None:
        return not rows
    if len(rows) != scene.rows or not all(example_fits(row, tables) for row in rows):
        return False
    return all(rows[0][name] == value for name, value in scene.first.items())


def main(*wanted: str) -> None:
    """Print the survivors."""
    findings = wanted or sorted({scene.finding for scene in SCENES})
    with Database([], wanted=TABLES) as database:
        database.make_all()
        for finding in findings:
            found = survivors(database, finding)
            print(f"== {finding}: {len(found)} survive", flush=True)
            for mutant in found:
                print("   ", mutant.words, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

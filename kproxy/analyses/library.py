"""The analyses: those of kproxy and those of users' folders; the views that they share; what an analysis needs.

    sql/*.sql             analyses
    sql/findings/*.sql    findings: rules with evidence rows
    views/*.sql           views, by the name of the file

A user's folder has the same layout (``views`` and ``findings`` in it are optional). A file with the id of an earlier one
replaces it: users' folders replace built-in analyses, and later folders replace earlier ones.

The built-in files are kept as they were read, in the user's folder for caches: reading them takes a tenth of a second. Each
installation has a file of its own there.
"""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import MsgspecError, msgpack
from msgspec.structs import replace

from kproxy.analyses import analysis as reading
from kproxy.analyses.analysis import Analysis, View, mistake, read_analysis, read_view
from kproxy.analyses.dialect import in_duckdbs, tables_in
from kproxy.analyses.facts import FACTS_TABLES
from kproxy.config.structs import Struct
from kproxy.errors import UsageError, did_you_mean
from kproxy.output.tables.contracts import TABLES

Source = TypeVar("Source", Analysis, View)
BUILT_IN = Path(__file__).parent
OURS = f"{BUILT_IN}/"
COMMENT = re.compile("--.*")
READ = re.compile(r"\b(?:FROM|JOIN)\s+([a-z]\w*)(?!\w*\s*[.(])")  # neither a column after DISTINCT FROM nor a function
DEFINED = re.compile(r"\b([a-z]\w*)\s+AS\s+(?:(?:NOT\s+)?MATERIALIZED\s+)?\(\s*(?:SELECT|WITH|VALUES)\b")


def load(folders: Iterable[Path | str] = ()) -> dict[str, Analysis]:
    """All analyses by id, in the order of their ids. Raises ConfigError for a file with mistakes, UsageError for a folder."""
    analyses = dict(_built_in().analyses)
    for folder in map(Path, folders):
        own = {name: _in_duckdbs(one) for name, one in _read_folder(folder)}
        analyses |= own
        known = load_views(folders)
        for analysis in own.values():
            _check_tables(analysis, known)
    return dict(sorted(analyses.items()))


def load_views(folders: Iterable[Path | str] = ()) -> dict[str, View]:
    """All views by name. Raises as ``load`` does."""
    views = dict(_built_in().views)
    for folder in map(Path, folders):
        _check_folder(folder)
        views |= {path.stem: _in_duckdbs(read_view(path)) for path in _files(folder / "views")}
    return dict(sorted(views.items()))


def find(analyses: Mapping[str, Analysis], wanted: str) -> Analysis:
    """Return the analysis with this id. Raises UsageError that suggests similar ids."""
    if wanted in analyses:
        return analyses[wanted]
    hint = did_you_mean(wanted, analyses, "kproxy report --list shows them")
    raise UsageError(f"there is no analysis {wanted[:80]!r}; {hint}")


def views_needed(analysis: Analysis | View, views: Mapping[str, View]) -> list[View]:
    """The views that it uses, directly or through other views, in an order in which they can be created."""
    ordered: dict[str, View] = {}

    def add(names: Iterable[str], above: tuple[str, ...]) -> None:
        for name in names:
            if name in views and name not in ordered:
                if name in above:
                    raise mistake(views[name].path, 1, 1, f"the views {', '.join(above)} need each other")
                add(tables_of(views[name]), (*above, name))
                ordered[name] = views[name]

    add(tables_of(analysis), ())
    return list(ordered.values())


def tables_needed(analysis: Analysis | View, views: Mapping[str, View]) -> set[str]:
    """The tables of kproxy.output.tables that it reads, directly or through views."""
    used = {*tables_of(analysis), *(name for view in views_needed(analysis, views) for name in tables_of(view))}
    if isinstance(analysis, Analysis) and analysis.header.only_if:
        used |= set(_tables_in(f"SELECT 1 {analysis.header.only_if}", analysis.path))
    return used & TABLES.keys()


def reads_records(analysis: Analysis, views: Mapping[str, View]) -> bool:
    """Whether it reads the table records. Few do: users' SQL is parsed only if the name stands where a table can."""
    sources: list[Analysis | View] = [analysis, *views.values()]
    return any(map(_may_read_records, sources)) and "records" in tables_needed(analysis, views)


def _may_read_records(source: Analysis | View) -> bool:
    if (tables := _built_in().tables.get(source.path)) is not None:
        return "records" in tables
    parts = re.split(r'"?\bRECORDS\b', source.sql.upper())
    return any(before.split()[-1:] in (["FROM"], ["JOIN"]) for before in parts[:-1])


def tables_of(source: Analysis | View) -> tuple[str, ...]:
    """The names after FROM and JOIN, sorted, without those that WITH defines."""
    if (tables := _built_in().tables.get(source.path)) is not None:
        return tables
    return _tables_in(source.sql, source.path)


@functools.lru_cache(maxsize=1024)
def _tables_in(sql: str, path: str) -> tuple[str, ...]:
    """As ``tables_in``; what kproxy brings is written so that no parser is needed, which takes milliseconds for each."""
    if not path.startswith(OURS):
        return tables_in(sql)
    text = COMMENT.sub("", sql)
    return tuple(sorted({*READ.findall(text)} - {*DEFINED.findall(text)}))


def _in_duckdbs(source: Source) -> Source:
    return replace(source, sql=in_duckdbs(source.sql, source.path))


def _check_tables(analysis: Analysis, views: Mapping[str, View]) -> None:
    known = [*TABLES, *FACTS_TABLES, *views]
    for name in tables_of(analysis):
        if name not in known:
            hint = did_you_mean(name, known)
            raise mistake(
                analysis.path, _line_of(analysis.sql, name), 1, f"there is no table or view {name[:80]!r}; {hint}"
            )


def _line_of(sql: str, name: str) -> int:
    return next((at for at, line in enumerate(sql.splitlines(), 1) if name in line.lower()), 1)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.sql") if path.is_file())


def _read_folder(folder: Path) -> Iterator[tuple[str, Analysis]]:
    _check_folder(folder)
    paths = [(path, False) for path in _files(folder)] + [(path, True) for path in _files(folder / "findings")]
    if not paths:
        raise UsageError(f"{folder} has no analysis: no file whose name ends in .sql")
    seen: dict[str, Path] = {}
    for path, is_finding in paths:
        analysis = read_analysis(path, is_finding=is_finding)
        if analysis.id in seen:
            raise mistake(str(path), 1, 1, f"the id {analysis.id} is also that of {seen[analysis.id]}")
        seen[analysis.id] = path
        yield analysis.id, analysis


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is {'not a directory' if folder.exists() else 'not there'}; --analyses wants a folder of .sql files"
        )


class BuiltIn(Struct, frozen=True):
    """The built-in files. ``digest`` is that of their bytes and of the code that reads them; ``tables`` has them by path."""

    digest: bytes
    analyses: dict[str, Analysis]
    views: dict[str, View]
    tables: dict[str, tuple[str, ...]]


@functools.cache
def _built_in() -> BuiltIn:
    digest = _digest()
    with suppress(OSError, RuntimeError, MsgspecError):  # there may be no home
        kept = msgpack.decode(_kept_in().read_bytes(), type=BuiltIn)
        if kept.digest == digest:
            return kept
    views = {path.stem: read_view(path) for path in _files(BUILT_IN / "views")}
    analyses = dict(_read_folder(BUILT_IN / "sql"))
    sources: list[Analysis | View] = [*analyses.values(), *views.values()]
    tables = {source.path: _tables_in(source.sql, source.path) for source in sources}
    made = BuiltIn(digest=digest, analyses=analyses, views=views, tables=tables)
    with suppress(OSError, RuntimeError):
        _keep(made)
    return made


def _kept_in() -> Path:
    installation = hashlib.blake2b(OURS.encode(), digest_size=8).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "kproxy" / f"analyses-{installation}.msgpack"


def _digest() -> bytes:
    total = hashlib.blake2b()
    for path in (Path(__file__), Path(reading.__file__), *sorted(BUILT_IN.rglob("*.sql"))):
        total.update(str(path).encode() + path.read_bytes())
    return total.digest()


def _keep(made: BuiltIn) -> None:
    """Write the file. If a process is killed meanwhile, what it leaves cannot be decoded, and the next one writes it again."""
    path = _kept_in()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgpack.encode(made))

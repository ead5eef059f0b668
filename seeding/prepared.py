"""Core statements compiled once and run on the driver's own cursor, for the paths that every brief takes.

SQLAlchemy needs some 60 microseconds to run a statement that it has compiled before; SQLite needs 10. The
statements stay Core, so each database gets its own text and its own types.
"""

import contextlib
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.types import TypeEngine

_CURSOR = "seeding cursor"

Processor = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement as one dialect's driver takes it."""

    text: str
    binds: tuple[tuple[str, Processor | None], ...]  # in order: the name, and how its value is written
    constants: Mapping[str, Any]  # what the statement itself gives
    is_positional: bool
    results: tuple[tuple[int, Processor], ...]  # columns that are not read as they are
    error: type[Exception]  # the driver's

    def parameters(self, values: Mapping[str, Any]) -> Any:
        if self.constants:
            values = {**self.constants, **values}
        if self.is_positional:
            return [values[name] if write is None else write(values[name]) for name, write in self.binds]
        return {name: values[name] if write is None else write(values[name]) for name, write in self.binds}

    def read(self, row: Sequence[Any]) -> Sequence[Any]:
        if not self.results:
            return row
        changed = list(row)
        for place, process in self.results:
            changed[place] = process(changed[place])
        return changed


class Prepared:
    """One statement. The connection must be inside a transaction. Errors are SQLAlchemy's, without parameters.

    columns: for an INSERT, the columns that each row gives.
    """

    def __init__(self, statement: Select[Any] | UpdateBase, *, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._by_dialect: dict[str, _Compiled] = {}
        self._row = _row_type(statement)

    def all(self, conn: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Run a SELECT and return its rows as named tuples."""
        compiled = self._compiled(conn.dialect)
        cursor = _cursor(conn)
        try:
            cursor.execute(compiled.text, compiled.parameters(values))
            rows = cursor.fetchall()
        except compiled.error as error:
            raise _translated(conn, compiled.text, error) from error
        return [self._row(*compiled.read(row)) for row in rows]

    def run(self, conn: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run an INSERT, UPDATE or DELETE once for each of the rows; return how many rows it changed in all."""
        if not rows:
            return 0
        compiled = self._compiled(conn.dialect)
        cursor = _cursor(conn)
        try:
            if len(rows) == 1:
                cursor.execute(compiled.text, compiled.parameters(rows[0]))
            else:
                cursor.executemany(compiled.text, [compiled.parameters(row) for row in rows])
        except compiled.error as error:
            raise _translated(conn, compiled.text, error) from error
        return int(cursor.rowcount)

    def _compiled(self, dialect: Dialect) -> _Compiled:
        found = self._by_dialect.get(dialect.name)
        if found is None:
            found = self._by_dialect[dialect.name] = _compile(self._statement, self._columns, dialect)
        return found


@contextlib.contextmanager
def savepoint(conn: Connection) -> Iterator[None]:
    """Undo what the block wrote if it raises, and nothing else."""
    _command(conn, "SAVEPOINT seeding")
    try:
        yield
    except BaseException:
        _command(conn, "ROLLBACK TO SAVEPOINT seeding")
        _command(conn, "RELEASE SAVEPOINT seeding")
        raise
    _command(conn, "RELEASE SAVEPOINT seeding")


def _command(conn: Connection, text: str) -> None:
    try:
        _cursor(conn).execute(text)
    except _driver_error(conn.dialect) as error:
        raise _translated(conn, text, error) from error


def _cursor(conn: Connection) -> Any:
    """Return the one cursor of ours on this connection. Every statement ends before the next begins."""
    cursor = conn.info.get(_CURSOR)
    if cursor is None:
        cursor = conn.info[_CURSOR] = conn.connection.cursor()
    return cursor


def _translated(conn: Connection, text: str, error: Exception) -> Exception:
    base = _driver_error(conn.dialect)
    wrapped = DBAPIError.instance(text, None, error, base, hide_parameters=True, dialect=conn.dialect)
    assert isinstance(wrapped, Exception)
    return wrapped


def _driver_error(dialect: Dialect) -> type[Exception]:
    driver = dialect.dbapi
    assert driver is not None
    return driver.Error


def _compile(statement: Select[Any] | UpdateBase, columns: Sequence[str] | None, dialect: Dialect) -> _Compiled:
    compiled = statement.compile(
        dialect=dialect,
        column_keys=None if columns is None else list(columns),
        compile_kwargs={"render_postcompile": True},
    )
    assert isinstance(compiled, SQLCompiler)
    names = list(compiled.positiontup or ()) if compiled.positional else list(compiled.binds)
    types = [column.type for column in statement.selected_columns] if isinstance(statement, Select) else []
    readers = [_of(each, dialect).result_processor(dialect, None) for each in types]
    return _Compiled(
        text=str(compiled),
        binds=tuple((name, _of(compiled.binds[name].type, dialect).bind_processor(dialect)) for name in names),
        constants={name: compiled.params[name] for name in names if not compiled.binds[name].required},
        is_positional=compiled.positional,
        results=tuple((place, read) for place, read in enumerate(readers) if read is not None),
        error=_driver_error(dialect),
    )


def _of(column: TypeEngine[Any], dialect: Dialect) -> TypeEngine[Any]:
    """Return the type as this dialect implements it; our own types do so by themselves."""
    return column if hasattr(column, "process_bind_param") else column.dialect_impl(dialect)


def _row_type(statement: Select[Any] | UpdateBase) -> Callable[..., Any]:
    if not isinstance(statement, Select):
        return tuple
    names = [str(column.key) for column in statement.selected_columns]
    return namedtuple("Row", names)

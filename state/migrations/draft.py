"""Writes the first migration out anew from `state.schema`: `python -m state.migrations.draft > .../0001_first.py`.

For the time before the first release only. Later migrations are written by hand; what Alembic finds on
SQLite by comparing is not to be trusted.
"""

import re
import sys

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from state.schema import metadata

_FRAME = '''"""The first layout: every table, and the full-text index over turns."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
{tables}
    if op.get_bind().dialect.name == "sqlite":
        index_turns()


def index_turns() -> None:
    """Keep an index beside `turns` that holds no copy of the text; the triggers follow every change."""
    op.execute(
        "CREATE VIRTUAL TABLE turns_search USING fts5("
        "text, content = 'turns', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')"
    )
    op.execute(
        "CREATE TRIGGER turns_search_insert AFTER INSERT ON turns BEGIN"
        " INSERT INTO turns_search (rowid, text) VALUES (new.id, new.text); END"
    )
    op.execute(
        "CREATE TRIGGER turns_search_delete AFTER DELETE ON turns BEGIN"
        " INSERT INTO turns_search (turns_search, rowid, text) VALUES ('delete', old.id, old.text); END"
    )
    op.execute(
        "CREATE TRIGGER turns_search_update AFTER UPDATE OF text ON turns BEGIN"
        " INSERT INTO turns_search (turns_search, rowid, text) VALUES ('delete', old.id, old.text);"
        " INSERT INTO turns_search (rowid, text) VALUES (new.id, new.text); END"
    )
'''


def draft() -> str:
    """Return the text of the first migration. Our column types stand in it as what they are stored as."""
    with create_engine("sqlite://").connect() as connection:
        context = MigrationContext.configure(connection, opts={"user_module_prefix": None})
        operations = produce_migrations(context, metadata).upgrade_ops
    assert operations is not None
    code = render_python_code(operations)
    code = code.replace("state.types.Instant()", "sa.BigInteger()").replace("state.types.JsonText()", "sa.Text()")
    tables = re.sub(r"^ *# ###.*\n?", "", code, flags=re.MULTILINE).strip("\n")
    return _FRAME.replace("{tables}", "    " + tables.lstrip())


if __name__ == "__main__":
    sys.stdout.write(draft())

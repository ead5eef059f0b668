"""An index of letter triples, for scripts that put no spaces between words."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SPACELESS = "\u0e00-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Thai to Burmese, Khmer, Chinese, Japanese: kana, Han and what stands between them."""


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        index_spaceless_turns()


def index_spaceless_turns() -> None:
    """Index only the turns that hold such letters, so that the others cost nothing.

    'rebuild' would take in all of them; to make the index anew, drop it and run this again.
    """

    def has_them(text: str) -> str:
        """ASCII alone, the most of what is said, is told in a microsecond; GLOB takes fifty."""
        return f"(length({text}) < length(CAST({text} AS BLOB)) AND {text} GLOB '*[{SPACELESS}]*')"

    op.execute(
        "CREATE VIRTUAL TABLE turns_trigrams USING fts5("
        "text, content = 'turns', content_rowid = 'id', tokenize = 'trigram')"
    )
    op.execute(
        f"CREATE TRIGGER turns_trigrams_insert AFTER INSERT ON turns WHEN {has_them('new.text')} BEGIN"
        " INSERT INTO turns_trigrams (rowid, text) VALUES (new.id, new.text); END"
    )
    op.execute(
        f"CREATE TRIGGER turns_trigrams_delete AFTER DELETE ON turns WHEN {has_them('old.text')} BEGIN"
        " INSERT INTO turns_trigrams (turns_trigrams, rowid, text) VALUES ('delete', old.id, old.text); END"
    )
    # One trigger for both halves: in which order two of them would run is not defined.
    op.execute(
        "CREATE TRIGGER turns_trigrams_update AFTER UPDATE OF text ON turns BEGIN"
        " INSERT INTO turns_trigrams (turns_trigrams, rowid, text)"
        f" SELECT 'delete', old.id, old.text WHERE {has_them('old.text')};"
        f" INSERT INTO turns_trigrams (rowid, text) SELECT new.id, new.text WHERE {has_them('new.text')}; END"
    )
    op.execute(f"INSERT INTO turns_trigrams (rowid, text) SELECT id, text FROM turns WHERE {has_them('text')}")

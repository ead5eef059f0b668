"""An index for dropping what people wrote: without it each dropped row is looked for in every turn there is."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE INDEX IF NOT EXISTS ix_turns_inbound ON turns (inbound_id) WHERE inbound_id IS NOT NULL")

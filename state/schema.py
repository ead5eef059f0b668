"""Every table of the one database, for SQLite and PostgreSQL alike (SQLAlchemy Core).

Instants are aware UTC datetimes, stored as microseconds since the epoch. Once-only rules are UNIQUE
constraints here, never an `if` elsewhere. What is not final has one line that says what a restart does.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from state.types import Instant, JsonText

metadata = MetaData()
RowId = BigInteger().with_variant(Integer(), "sqlite")

# --- the home -----------------------------------------------------------------------------------------

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),  # uuid, batch, marker rows of the writer
    Column("value", Text, nullable=False),
)

incarnations = Table(  # one row per daemon (or inline command) that held the home's lock
    "incarnations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pid", Integer, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant),
)

# --- when ---------------------------------------------------------------------------------------------

jobs = Table(  # what the database remembers of a job; what the job *is* stands in jobs.yaml
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),  # the stable job id
    Column("name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),  # of schedule, zone, start, end, except
    Column("definition", JsonText, nullable=False),  # schedule as read, so that a reload can account for the past
    Column("anchor", Instant, nullable=False),
    Column("cursor", Instant, nullable=False),  # every occurrence up to and including it has its row
    Column("revision", Integer, nullable=False, default=0),
    Column("paused_at", Instant),
    Column("paused_until", Instant),
    Column("paused_by", Text),
    Column("snoozed_until", Instant),
    Column("failures", Integer, nullable=False, default=0),  # streak of scheduled runs
    Column("incident", Text),  # the cause that was told last; null when healthy
    Column("incident_told_at", Instant),
    Column("floor", Instant),  # pruned up to here
    Column("ahead_until", Instant),  # rows may exist beyond the cursor, up to here: the clock was set back
    Column("removed_at", Instant),  # no longer in the file
    Column("seen_at", Instant, nullable=False),
)

occurrences = Table(
    "occurrences",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("kind", Text, nullable=False),  # scheduled | manual | replay
    Column("due", Instant, nullable=False),
    Column("n", Integer, nullable=False, default=0),
    Column("until", Instant),  # the last, when neighbours share a row
    Column("count", Integer, nullable=False, default=1),
    Column("outcome", Text),  # null while it is open
    Column("error", Text),
    Column("late_s", Float),
    Column("at", Instant, nullable=False),  # when the row was written
    UniqueConstraint("job_id", "kind", "due", "n", name="uq_occurrence"),
    Index("ix_occurrences_due", "due"),
)

runs = Table(  # state: claimed -> composing -> composed -> closed
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("occurrence_id", RowId, ForeignKey("occurrences.id", ondelete="CASCADE"), nullable=False, unique=True),
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("state", Text, nullable=False),
    Column("incarnation", Text, ForeignKey("incarnations.id"), nullable=False),
    Column("definition", JsonText, nullable=False),  # the job as it was read, secrets left out
    Column("attempt", Integer, nullable=False, default=0),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("process_group", Integer),
    Column("leader_ticks", BigInteger),  # start time of the group's leader, so that a reused pid is not taken for it
    Column("brief", Text),  # as composed, after redaction
    Column("details", JsonText),  # exit code, stderr's tail, token counts
    Index("ix_runs_job", "job_id", "started_at"),
    Index("ix_runs_state", "state"),
)

clock_steps = Table(  # one row each time that the clock was found behind what is accounted for already
    "clock_steps",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),  # what the clock said then
    Column("seen", Instant, nullable=False),  # the furthest cursor
    Column("jobs", Integer, nullable=False),  # how many cursors went back
)

# --- where --------------------------------------------------------------------------------------------

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # delivery.model.DeliveryKind
    Column("run_id", Text, ForeignKey("runs.id", ondelete="SET NULL")),
    Column("inbound_id", RowId, ForeignKey("inbound.id", ondelete="SET NULL"), unique=True),
    Column("job", Text),  # the job's name, for the label; null for answers in no job's name
    Column("target", Text, nullable=False),  # as written
    Column("place", Text),  # the same as `parse_target` reads it, for a target that is resolved later
    Column("title", Text),  # what a thread that is opened later is called
    Column("seq", BigInteger, nullable=False, default=0),  # the order of a chat's queue
    Column("surface", Text, nullable=False),
    Column("continues", Boolean, nullable=False),
    Column("state", Text, nullable=False),  # delivery.model.DeliveryState
    Column("account", Text, nullable=False),
    Column("workspace", Text),  # null until the account has connected once
    Column("chat", Text),  # null while the target is not resolved
    Column("chat_kind", Text),
    Column("topic", Text),
    Column("thread", Text),  # the existing thread to post into; after part 0 the root that was opened
    Column("root", Text),  # the header message or topic that part 0 opened
    Column("address_key", Text, nullable=False),  # the resolved address in one text; the target while unresolved
    Column("session_id", Text, ForeignKey("sessions.id", ondelete="SET NULL")),  # answers: the session that asked
    Column("flat_session", Text),
    Column("thread_session", Text),
    Column("flat_seeded", Boolean),  # null: nothing owed; false: owed; true: landed
    Column("thread_seeded", Boolean),
    Column("error", Text),
    Column("not_before", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("run_id", "address_key", name="uq_delivery"),
    Index("ix_deliveries_state", "state", "created_at"),
    Index("ix_deliveries_chat", "account", "chat", "created_at"),
    Index("ix_deliveries_seq", "seq"),
    Index("ix_deliveries_queue", "account", "chat", "state", "seq"),
)

parts = Table(
    "parts",
    metadata,
    Column("delivery_id", Text, ForeignKey("deliveries.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),  # 0: the header or topic; the brief's parts from 1
    Column("kind", Text, nullable=False),  # delivery.model.PartKind
    Column("state", Text, nullable=False),  # delivery.model.PartState
    Column("payload", JsonText, nullable=False),
    Column("text", Text, nullable=False),  # Markdown of exactly this part, as mirrored
    Column("marker", Text, nullable=False, unique=True),
    Column("attempts", Integer, nullable=False, default=0),
    Column("asked", Integer, nullable=False, default=0),  # how often `find` answered Absent
    Column("intent_at", Instant),
    Column("not_before", Instant),  # pending: no try before it; in_doubt: when to ask next, null: nobody asks any more
    Column("told_at", Instant),  # in_doubt: when it was first held for a person; the parts after it wait until then
    Column("degraded", Text),
    Column("error", Text),
)

receipts = Table(
    "receipts",
    metadata,
    Column("delivery_id", Text, ForeignKey("deliveries.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("account", Text, nullable=False),
    Column("workspace", Text, nullable=False),
    Column("chat", Text, nullable=False),
    Column("chat_kind", Text, nullable=False),
    Column("topic", Text),
    Column("message", Text, nullable=False),
    Column("root", Text),
    Column("at", Instant, nullable=False),
    Column("raw", JsonText, nullable=False),
    Index("ix_receipts_message", "account", "workspace", "chat", "message"),
)

accounts = Table(  # what is known of each account between two runs
    "accounts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("workspace", Text),
    Column("state", Text, nullable=False),  # up | down | unknown
    Column("reason", Text),
    Column("not_before", Instant),  # no call before this instant (a flood wait of the whole account)
    Column("updated_at", Instant, nullable=False),
)

chats = Table(  # what is known of single chats: moved, gone, throttled
    "chats",
    metadata,
    Column("account", Text, primary_key=True),
    Column("chat", Text, primary_key=True),
    Column("moved_to", Text),
    Column("gone", Text),  # the reason; cleared when somebody writes there again
    Column("not_before", Instant),
)

directory = Table(
    "directory",
    metadata,
    Column("account", Text, primary_key=True),
    Column("chat", Text, primary_key=True),
    Column("topic", Text, primary_key=True, default=""),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # delivery.model.ChatKind
    Column("members", Integer),
    Column("updated_at", Instant, nullable=False),
)

local_messages = Table(  # what the local platform is made of
    "local_messages",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("channel", Text, nullable=False),  # without '#'
    Column("thread", RowId),
    Column("author", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("job", Text),  # set on briefs
    Column("heard", Boolean),  # null: ours; false: a person's, handed over at the next start; true: handed over
    Index("ix_local_channel", "channel", "id"),
    sqlite_autoincrement=True,
)

# --- so what ------------------------------------------------------------------------------------------

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("account", Text, nullable=False),
    Column("workspace", Text, nullable=False),
    Column("chat", Text, nullable=False),
    Column("chat_kind", Text, nullable=False),
    Column("topic", Text),
    Column("root", Text),  # thread sessions: the message that it hangs under
    Column("user", Text),  # per_user sessions
    Column("display_name", Text, nullable=False),
    Column("origin", JsonText, nullable=False),
    Column("expiry_finalized", Boolean, nullable=False, default=False),
    Column("job", Text),  # thread sessions: the job whose brief opened it
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Index("ix_sessions_chat", "account", "chat"),
    Index("ix_sessions_updated", "updated_at"),
)

session_keys = Table(
    "session_keys",
    metadata,
    Column("key", Text, primary_key=True),  # spelled by seeding.keys, nowhere else
    Column("session_id", Text, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("bound_at", Instant, nullable=False),
)

turns = Table(
    "turns",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("role", Text, nullable=False),  # user | assistant
    Column("text", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("origin", Text, nullable=False),  # cron | inbound | answer | send
    Column("author", Text),  # the person's name
    Column("job", Text),
    Column("delivery_id", Text, ForeignKey("deliveries.id", ondelete="SET NULL")),
    Column("inbound_id", RowId, ForeignKey("inbound.id", ondelete="SET NULL")),
    Column("unconfirmed", Boolean, nullable=False, default=False),  # an answer whose delivery is in doubt
    UniqueConstraint("session_id", "delivery_id", name="uq_turn_delivery"),
    UniqueConstraint("session_id", "inbound_id", name="uq_turn_inbound"),
    Index("ix_turns_session", "session_id", "id"),
    Index("ix_turns_delivery", "delivery_id"),
    Index(  # for dropping old inbound rows; briefs are not in it
        "ix_turns_inbound",
        "inbound_id",
        sqlite_where=text("inbound_id IS NOT NULL"),
        postgresql_where=text("inbound_id IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

seeds = Table(  # the books: one row per delivery and surface that is owed a seed
    "seeds",
    metadata,
    Column("delivery_id", Text, ForeignKey("deliveries.id", ondelete="CASCADE"), primary_key=True),
    Column("surface", Text, primary_key=True),  # flat | thread
    Column("session_id", Text),
    Column("state", Text, nullable=False),  # owed: tried again until it lands | landed
    Column("attempts", Integer, nullable=False, default=0),
    Column("error", Text),
    Column("updated_at", Instant, nullable=False),
    Index("ix_seeds_state", "state"),
)

inbound = Table(  # state: stored -> routed | ignored -> answering -> answered | gave_up
    "inbound",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("account", Text, nullable=False),
    Column("workspace", Text, nullable=False),
    Column("chat", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("payload", JsonText, nullable=False),  # the Inbound value
    Column("fingerprint", Text, nullable=False),  # of the text, so that an edit without a change is dropped
    Column("mentioned", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("session_id", Text, ForeignKey("sessions.id", ondelete="SET NULL")),
    Column("attempts", Integer, nullable=False, default=0),
    Column("at", Instant, nullable=False),  # when it was written, by the platform's clock
    Column("received_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("account", "workspace", "chat", "message", name="uq_inbound"),
    Index("ix_inbound_state", "state"),
)

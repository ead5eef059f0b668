"""The `text` agent: a template that knows `{{job}}` and `{{due}}`, and nothing else."""

import re
from datetime import tzinfo

from cron.agents.ports import BriefRequest, Composed, Started
from seeding.model import Question
from seeding.ports import AnswerFailed

_FIELD = re.compile(r"\{\{\s*(job|due)\s*\}\}")


class TextAgent:
    """Writes the job's `text`."""

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Fill in the template; other braces stay what they are."""
        values = {"job": request.job.name, "due": request.due.isoformat(timespec="seconds")}
        return Composed(text=_FIELD.sub(lambda field: values[field[1]], request.job.text or ""))

    async def answer(self, question: Question, zone: tzinfo) -> str:
        """Refuse: jobs.yaml never makes a template the one who answers."""
        raise AnswerFailed("A text agent cannot answer; name another one with `agent:`.")

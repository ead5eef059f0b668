"""The `command` agent: argv's stdout is the brief, or the answer. It gets one JSON document on stdin."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import tzinfo

from cron.agents.ports import BriefRequest, Composed, ComposeFailed, EarlierBrief, Started
from cron.agents.process import CommandNotStarted, Ended, run_process
from cron.model import AgentSpec
from seeding.model import Question, Turn
from seeding.ports import AnswerFailed
from state.clock import Sleep

Redact = Callable[[str], str]
"""Takes secrets out of a text."""

LONGEST_SECRET = 4_096  # characters at a cut that are dropped, for they may be half of one
PASSED_ON = ("PATH", "HOME", "LANG", "TZ")


async def _nobody(group: int, ticks: int) -> None:
    """Answers are not runs: nothing is written down, a restart asks again."""


class CommandAgent:
    """Runs `spec.command` without a shell, unless the spec says `shell: true`, in a scrubbed environment."""

    def __init__(self, spec: AgentSpec, *, environ: Mapping[str, str], sleep: Sleep, redact: Redact) -> None:
        self._spec = spec
        self._sleep = sleep
        self._redact = redact
        self._env = {name: environ[name] for name in PASSED_ON if name in environ} | dict(spec.env)

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Run the command; its stdout is the brief, unless its last line is a JSON object that says otherwise."""
        env = {
            "HERMES_CRON_JOB": request.job.name,
            "HERMES_CRON_DUE": request.due.isoformat(),
            "HERMES_CRON_RUN": request.run_id,
        }
        try:
            ended = await self._run(_brief_document(request), env | dict(request.job.env), started)
        except CommandNotStarted as error:
            raise ComposeFailed(str(error), is_transient=False) from error
        details: dict[str, object] = {"exit_code": ended.code}
        if ended.errors:
            details["stderr"] = ended.errors
        if ended.is_cut:
            details["cut"] = True
        if ended.code != 0:
            raise ComposeFailed(_failure(ended), is_transient=True, details=details)
        text, verdict = split_verdict(ended.output)
        if ended.is_cut:
            text = f"{text}\n\n*[cut here: the command wrote more than that]*"
        return Composed(text=text, is_silent=verdict.get("silent") is True, details=details)

    async def answer(self, question: Question, zone: tzinfo) -> str:
        """Run the command with the transcript on stdin; its stdout is the answer."""
        try:
            ended = await self._run(_question_document(question), {}, _nobody)
        except CommandNotStarted as error:
            raise AnswerFailed(str(error)) from error
        if ended.code != 0:
            raise AnswerFailed(_failure(ended))
        if ended.is_cut:
            raise AnswerFailed("The command that answers printed more than a megabyte.")
        if not ended.output.strip():
            raise AnswerFailed("The command that answers printed nothing.")
        return ended.output.strip()

    async def _run(self, document: object, env: Mapping[str, str], started: Started) -> Ended:
        argv = ["/bin/sh", "-c", " ".join(self._spec.command)] if self._spec.shell else list(self._spec.command)
        ended = await run_process(
            argv,
            env=self._env | dict(env),
            cwd=self._spec.cwd,
            stdin=json.dumps(document, ensure_ascii=False).encode() + b"\n",
            started=started,
            sleep=self._sleep,
        )
        return self._cleaned(ended)

    def _cleaned(self, ended: Ended) -> Ended:
        """Take the secrets out, and where something was cut also what may be a piece of one."""
        output, errors = self._redact(ended.output), self._redact(ended.errors)
        return replace(
            ended,
            output=output[:-LONGEST_SECRET] if ended.is_cut else output,
            errors=errors[LONGEST_SECRET:] if ended.is_errors_cut else errors,
        )


def split_verdict(output: str) -> tuple[str, Mapping[str, object]]:
    """Take a JSON object off the last line: (what is left, the object). Only one that knows `silent` counts."""
    body = output.rstrip()
    head, _, last = body.rpartition("\n")
    if last.startswith("{") and last.endswith("}"):
        try:
            verdict = json.loads(last)
        except ValueError:
            return body, {}
        if isinstance(verdict, dict) and "silent" in verdict:
            return head.rstrip(), verdict
    return body, {}


def _failure(ended: Ended) -> str:
    how = f"was killed by signal {-ended.code}" if ended.code < 0 else f"exited with code {ended.code}"
    last = next((line for line in reversed(ended.errors.splitlines()) if line.strip()), "")
    return f"The command {how}: {last.strip()}" if last else f"The command {how} and wrote nothing to stderr."


def _brief_document(request: BriefRequest) -> Mapping[str, object]:
    previous = request.previous
    prompt = {} if request.job.prompt is None else {"prompt": request.job.prompt}
    return prompt | {
        "job": request.job.name,
        "due": request.due.isoformat(),
        "run": request.run_id,
        "previous": None if previous is None else {"at": previous.at.isoformat(), "text": previous.text},
        "context": [_context(brief) for brief in request.context],
    }


def _context(brief: EarlierBrief) -> Mapping[str, object]:
    return {"job": brief.job, "at": brief.at.isoformat(), "text": brief.text}


def _question_document(question: Question) -> Mapping[str, object]:
    return {
        "job": question.job,
        "session": question.session_id,
        "question": question.text,
        "author": question.author,
        "transcript": [_turn(turn) for turn in question.transcript],
        "inbound": question.inbound_id,
        "attempt": question.attempt,
    }


def _turn(turn: Turn) -> Mapping[str, object]:
    return {
        "role": str(turn.role),
        "text": turn.text,
        "at": turn.at.isoformat(),
        "origin": str(turn.origin),
        "author": turn.author,
    }

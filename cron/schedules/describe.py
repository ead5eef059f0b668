"""Rules in English."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim.explain import Expression

from cron.schedules.durations import format_duration
from cron.schedules.rules import CronRule, IntervalRule, OnceRule, Rule

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def describe_rule(rule: Rule, zone: ZoneInfo) -> str:
    """Say when a rule fires; its zone is named where it is not `zone`."""
    elsewhere = "" if rule.zone is zone else f" in {rule.zone.key}"
    if isinstance(rule, CronRule):
        return _cron(rule.expression.steps) + elsewhere
    if isinstance(rule, IntervalRule):
        return f"Every {format_duration(rule.period)} from {_day_and_time(rule.anchor, rule.zone)}{elsewhere}"
    if isinstance(rule, OnceRule):
        return f"Once, {_day_and_time(rule.at, rule.zone)}{elsewhere}"
    return rule.text


def either_day(steps: str) -> tuple[str, str] | None:
    """Return both restrictions in words, if an expression restricts the day of month and the weekday, else None."""
    day, _, weekday = steps.split()[3:]
    if day == "*" or weekday == "*":
        return None
    expression = Expression(steps.split())
    return _ordinals(_day(expression)), _ordinals(str(expression.dow))


def _cron(steps: str) -> str:
    expression = Expression(steps.split())
    if expression.day_and:
        return _ordinals(expression.explain())
    when, _ = expression.translate_time()
    months = "" if expression.month.star else f", {expression.month}"
    said = f"{when} {_day(expression)}, or {expression.dow}{months}"  # cronsim says "and", which it is not
    return _ordinals(said[0].upper() + said[1:])


def _day(expression: Expression) -> str:
    return "on every day" if expression.day.star else str(expression.day)


def _ordinals(said: str) -> str:
    """cronsim writes 22th."""

    def ending(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{number}{'th' if 11 <= number % 100 <= 13 else _ENDINGS.get(number % 10, 'th')}"

    return re.sub(r"\b([0-9]+)th\b", ending, said)


def _day_and_time(instant: datetime, zone: ZoneInfo) -> str:
    local = instant.astimezone(zone)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return f"{local:%a} {local.day} {local:%b} {local.year} {clock}"

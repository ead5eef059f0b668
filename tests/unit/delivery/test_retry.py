"""When something is tried again."""

from datetime import timedelta

from delivery.retry import RetryPolicy, first_ask, next_ask, next_resolve, next_try
from delivery.testing import START


def seconds(*values):
    return [timedelta(seconds=value) for value in values]


def test_waits_double_from_a_second_to_five_minutes():
    policy = RetryPolicy()
    assert [policy.wait(n) for n in (1, 2, 3, 4, 9, 10, 500)] == seconds(1, 2, 4, 8, 256, 300, 300)


def test_after_very_many_tries_it_is_given_up():
    policy = RetryPolicy(tries=3)
    assert next_try(policy, attempts=2, at=START) == START + timedelta(seconds=2)
    assert next_try(policy, attempts=3, at=START) is None


def test_absence_means_nothing_before_thirty_seconds_and_the_requests_own_timeout():
    assert first_ask(START, timedelta(seconds=10)) == START + timedelta(seconds=30)
    assert first_ask(START, timedelta(seconds=60)) == START + timedelta(seconds=65)


def test_a_platform_that_cannot_tell_is_asked_more_and_more_rarely_and_at_last_no_more():
    at, asked = START + timedelta(seconds=30), []
    while (due := next_ask(intent_at=START, at=at)) is not None:
        asked.append((due - START).total_seconds())
        at = due
    assert asked[:4] == [60, 120, 240, 480]
    assert asked[-1] <= 24 * 3600 < asked[-1] * 2


def test_a_target_that_is_not_known_yet_is_looked_up_again_for_a_day():
    assert next_resolve(since=START, at=START) == START + timedelta(seconds=30)
    assert next_resolve(since=START, at=START + timedelta(hours=1)) == START + timedelta(hours=1, minutes=15)
    assert next_resolve(since=START, at=START + timedelta(hours=24)) is None

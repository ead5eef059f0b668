#!/usr/bin/env python3
"""A command agent that answers: it looks the question's words up in the briefs of the conversation.

It gets one JSON document on stdin, {"job", "session", "question", "author", "transcript": [{"role", "text", "at",
"origin", "author"}]}, oldest turn first and the question last, and prints its answer. Replace it by anything that
can read and print.
"""

import json
import re
import sys

ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
SMALL = """
a an and are at be by did do does for from has have how i in is it me of on one or that the to was what when where
which who why will with you
""".split()  # noqa: SIM905 (shorter to read than a list)


def words(text):
    """Return the words of a text that carry meaning."""
    return {word for word in re.findall(r"[^\W_]+", text.lower()) if word not in SMALL}


def items(text):
    """Split a brief into its list items (each with what is indented below it) and its other lines."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if found and line.startswith((" ", "\t")):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def numbered(brief, question):
    """Return the item that "the second one", "number 2" or "#2" means."""
    match = re.search(r"\b(first|second|third|fourth|fifth)\b|(?:#|number |no\. ?)(\d+)", question.lower())
    if match is None:
        return None
    number = ORDINALS[match[1]] if match[1] else int(match[2])
    return next((item for item in items(brief) if item.startswith(f"{number}.")), None)


def without_label(text):
    """Drop the line that says which job a brief is from."""
    label, _, brief = text.partition("\n")
    return brief if label.startswith("[Cron delivery:") else text


def answer(asked):
    """Return the lines of the briefs that answer the question best."""
    question = asked.get("question") or ""
    turns = asked.get("transcript") or []
    briefs = [without_label(turn["text"]) for turn in turns if turn.get("origin") == "cron"]
    if not briefs:
        return "There is no brief in this conversation yet."
    meant = numbered(briefs[-1], question)
    if meant is not None:
        return meant
    wanted = words(question)
    scored = [(len(wanted & words(item)), age, item) for age, brief in enumerate(briefs) for item in items(brief)]
    best = max(scored, default=(0, 0, ""))
    if best[0] == 0:
        return "The briefs say nothing about that. The newest one:\n\n" + briefs[-1]
    hits = [item for score, age, item in scored if score == best[0] and age == best[1]]
    return "\n".join(dict.fromkeys(hits))


if __name__ == "__main__":
    print(answer(json.load(sys.stdin)))

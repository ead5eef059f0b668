#!/usr/bin/env python3
"""Write a brief about this machine: disk, memory, load, and what changed since the previous brief.

hermes-cron hands the previous brief over on stdin, as JSON; without one (or by hand) nothing is compared.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path


def measure():
    """Return what is measured, by name: (value, unit)."""
    disk = shutil.disk_usage("/")
    figures = {
        "disk used": (round(100 * disk.used / disk.total, 1), "%"),
        "disk free": (round(disk.free / 1e9, 1), "GB"),
    }
    memory = memory_used()
    if memory is not None:
        figures["memory used"] = (memory, "%")
    if hasattr(os, "getloadavg"):
        figures["load (5 min)"] = (round(os.getloadavg()[1], 2), f"on {os.cpu_count() or 1} cores")
    return figures


def memory_used():
    """Return the share of memory in use, in percent, where the system tells (Linux)."""
    table = Path("/proc/meminfo")
    if not table.exists():
        return None
    sizes = {name: int(size) for name, size in re.findall(r"(\w+):\s+(\d+)", table.read_text())}
    if not sizes.get("MemTotal"):
        return None
    return round(100 * (1 - sizes.get("MemAvailable", 0) / sizes["MemTotal"]), 1)


def previous_figures(handed):
    """Read the figures of the previous brief back out of its text."""
    text = (handed.get("previous") or {}).get("text") or ""
    return {name: float(value) for name, value in re.findall(r"^- \*\*(.+?)\*\*: (-?[\d.]+)", text, re.MULTILINE)}


def read_stdin():
    """Return what was handed over, or nothing when started by hand."""
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    text = sys.stdin.read().strip()
    return json.loads(text) if text else {}


def main():
    handed = read_stdin()
    before = previous_figures(handed)
    figures = measure()
    used, _ = figures["disk used"]
    verdict = "the disk is nearly full" if used >= 90 else "all is well"
    print(f"**{os.uname().nodename}**: {verdict}\n")
    changes = []
    for name, (value, unit) in figures.items():
        print(f"- **{name}**: {value} {unit}")
        if name in before and before[name] != value:
            changes.append(f"{name} went from {before[name]} to {value}")
    if not before:
        print("\nThis is the first brief: nothing to compare yet.")
    elif changes:
        print("\nSince the previous brief: " + "; ".join(changes) + ".")
    else:
        print("\nNothing changed since the previous brief.")


if __name__ == "__main__":
    main()

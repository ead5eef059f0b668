#!/usr/bin/env python3
"""Write a brief about test runs: reads the JUnit XML files of a folder and names what failed, and why.

build_health.py [FOLDER]        (default: the folder `reports` beside this file)
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def read_run(path):
    """Return a run's name, the number of its tests, and its failures as (test, reason)."""
    root = ElementTree.parse(path).getroot()
    failures = []
    cases = list(root.iter("testcase"))
    for case in cases:
        for problem in [*case.findall("failure"), *case.findall("error")]:
            name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
            reason = problem.get("message") or (problem.text or "no reason given")
            failures.append((name, reason.strip().splitlines()[0]))
    return path.stem, len(cases), failures


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "reports"
    files = sorted(folder.glob("*.xml"))
    if not files:
        sys.exit(f"no JUnit files (*.xml) in {folder}")
    runs = [read_run(path) for path in files]
    failed = [run for run in runs if run[2]]
    if not failed:
        print(f"All {len(runs)} builds passed.")
        return
    builds = "build" if len(runs) == 1 else "builds"
    print(f"**{len(failed)} of {len(runs)} {builds} failed**\n")
    for number, (name, tests, failures) in enumerate(failed, start=1):
        print(f"{number}. **{name}**: {len(failures)} of {tests} tests failed")
        for test, reason in failures:
            print(f"   - `{test}`: {reason}")
    passed = [name for name, _, failures in runs if not failures]
    if passed:
        print(f"\nPassed: {', '.join(passed)}.")


if __name__ == "__main__":
    main()

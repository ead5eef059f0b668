"""How long the command line takes, against the start of Python itself.

    python bench/cli.py [--pairs 9] [--jobs 10] [--json]

`python -c pass` and each command take turns, so that both see the same machine; figures are medians, the ratio is
the median of the pairs' ratios. `list` reads a jobs.yaml and the database of a home that a daemon has used.
The bars: --help under 6 times, list under 60 times.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = "from cron.cli.main import main; main()"
BARS = {"--help": 6.0, "list": 60.0}


def timed(arguments: list[str], env: dict[str, str], cwd: Path) -> float:
    """Run Python with these arguments; return the seconds. Raises if it fails."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=env, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - began


def prepare(folder: Path, jobs: int) -> dict[str, str]:
    """Write a jobs.yaml, let one job run, so that there is a database; return the environment."""
    lines = ["timezone: Europe/Berlin", "jobs:"]
    lines += [f'  job-{n}: {{schedule: "{n % 60} 8 * * mon-fri", text: "good morning"}}' for n in range(jobs)]
    (folder / "jobs.yaml").write_text("\n".join(lines) + "\n")
    env = os.environ | {"HERMES_CRON_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    timed(["-c", MAIN, "trigger", "job-0", "--wait"], env, folder)
    return env


def measure(pairs: int, jobs: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = prepare(folder, jobs)
        for command in BARS:
            timed(["-c", MAIN, command], env, folder)  # what is compiled once is compiled
            bare, ours = [], []
            for _ in range(pairs):
                bare.append(timed(["-c", "pass"], env, folder))
                ours.append(timed(["-c", MAIN, command], env, folder))
            ratios = [mine / theirs for mine, theirs in zip(ours, bare, strict=True)]
            found[command] = {
                "pass_ms": statistics.median(bare) * 1000,
                "ms": statistics.median(ours) * 1000,
                "ratio": statistics.median(ratios),
                "bar": BARS[command],
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.pairs, args.jobs)
    if args.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    print(f"{'hermes-cron':<12} {'median':>9} {'python -c pass':>15} {'ratio':>8} {'bar':>6}")
    for command, row in found.items():
        print(
            f"{command:<12} {row['ms']:>6.0f} ms {row['pass_ms']:>12.0f} ms {row['ratio']:>6.1f} x {row['bar']:>4.0f} x"
        )


if __name__ == "__main__":
    main()

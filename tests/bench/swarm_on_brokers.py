"""How long random plans need to find bugs of Kafka 4.4.0 and librdkafka 2.16.1 on local brokers, in two ways.

combinations  one load, and three faults at independent intervals, drawn from all that a local cluster supports: the
              rounds of tests/e2e/test_fault_combinations.py
swarm         the rounds of swarm.yaml, without its axes of versions and clients

Both ways run the versions above. Prints a line for each round, and for each repetition after how many seconds an
anomaly of each bug was first found. Rounds begin within 10 minutes. Keeps the folders of rounds with an anomaly that
Kafka rules out, because the anomaly only suggests the bug.

    python -m tests.bench.swarm_on_brokers WAY FIRST_REPETITION LAST_REPETITION
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from harness.experiments.swarm.draw_rounds import Round, drawn
from harness.experiments.swarm.run import described, once
from harness.experiments.swarm.spec import is_plan, load
from tests.e2e.test_fault_combinations import LOAD, combination

BUDGET_S: Final = 600
FINAL_S: Final = 40  # as in swarm.yaml; the combinations of the tests end their final polls earlier
FILE: Final = Path(__file__).parents[2] / "swarm.yaml"
# Anomaly -> experiment with the bug that causes it in these versions.
BUGS: Final = {
    "lost-write": "abort-reuses-sequence",
    "torn-transaction": "abort-reuses-sequence",
    "stale-send": "abort-reuses-sequence",  # the record that was acknowledged is not at its offset
    "duplicate": "librdkafka-4953",
    "stuck-transaction": "kafka-skipped-marker",
    "stuck-partition": "kafka-cleared-elr",
    "stuck-replica": "kafka-20961",
    "stuck-client": "kafka-follower-watermark",
}


def combination_round(repetition: int, number: int) -> Round:
    """Returns a round of the combinations of faults."""
    seed = 1000 * repetition + number
    schedule = combination(seed)
    plan: dict[str, Any] = {**LOAD, "final_time_limit_s": FINAL_S, "schedule": schedule, "seed": seed}
    return Round(number, plan, tuple(str(line["fault"]) for line in schedule))


def swarm_round(repetition: int, number: int) -> Round:
    """Returns a round of the swarm."""
    whole = load(FILE)
    axes = {name: entries for name, entries in whole.axes.items() if name not in ("version", "client")}
    return drawn(replace(whole, axes=axes), 1000 + repetition, number, is_plan)


WAYS: Final = {"combinations": combination_round, "swarm": swarm_round}


def repeat(way: str, repetition: int) -> str:
    """Runs rounds until the budget is used up. Returns a line with the result."""
    started = time.monotonic()
    first: dict[str, str] = {}
    verdicts: Counter[str] = Counter()
    for number in count():
        runs = Path(tempfile.mkdtemp(prefix="swarm-on-brokers-"))
        done = once(WAYS[way](repetition, number), runs)
        passed_s = time.monotonic() - started
        print(f"  {passed_s:4.0f} s  {'; '.join(done.round.features)}: {described(done)}", flush=True)
        if not done.anomalies:
            shutil.rmtree(runs, ignore_errors=True)
        verdicts[done.verdict] += 1
        for anomaly in done.anomalies:
            first.setdefault(BUGS.get(anomaly, anomaly), f"{passed_s:.0f} s")
        if passed_s > BUDGET_S:
            break
    found = ", ".join(f"{bug} after {when}" for bug, when in first.items()) or "nothing found"
    return f"{way} {repetition}: {found}; {', '.join(f'{n} {verdict}' for verdict, n in verdicts.items())}"


def main() -> None:
    way, first, last = sys.argv[1:]
    for repetition in range(int(first), int(last) + 1):
        print(repeat(way, repetition), flush=True)


if __name__ == "__main__":
    main()

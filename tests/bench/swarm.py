"""How many operations random plans need to find a bug of the simulated log, drawn in three ways.

fixed  the load of the random combinations of faults: every operation is a transaction, consumers assign and subscribe,
       and every kind of trouble occurs in every round
all    an entry of each axis of the load and of the trouble is drawn for each round, or none
half   `harness swarm`: as `all`, but each round first leaves out a random half of the entries

Rounds of 300 operations are drawn until the checker finds the bug, or until 30,000 operations have found nothing. The
bugs occur 200 times more rarely than in the tests, so that one round seldom suffices. For each of 12 bugs, prints the
median of 30 repetitions. A repetition that found nothing counts as longer than all others.

    python -m tests.bench.swarm [REPETITIONS]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, Final

from checker import check
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.experiments.swarm.draw_rounds import HALF, drawn
from harness.experiments.swarm.spec import Swarm
from harness.model.check_options import CheckOptions, Settings
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate
from harness.sim.queue.world import Trouble

OPS: Final = 300
OPS_MAX: Final = 30_000
RARER: Final = 200
PLANTED: Final = (
    "lose-acked",
    "truncate-acked",
    "duplicate-on-retry",
    "aborted-visible",
    "skip-poll",
    "reorder",
    "stale-order",
    "dirty-read",
    "lose-commit",
    "aborted-offsets",
    "concurrent-owners",
    "torn-transaction",
)
PLAIN: Final[Mapping[str, Any]] = {"txn": False, "sub_via": ["assign"], "length_max": 1, "crash_p": 0.0}
AXES: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "transactions": ({"txn": True},),
    "length": ({"length_max": 4}, {"length_max": 10}),
    "consumers": ({"sub_via": ["subscribe"]}, {"sub_via": ["assign", "subscribe"]}),
    "crashes": ({"crash_p": 0.02}, {"crash_p": 0.1}),
    "lost responses": ({"lost_p": 0.02}, {"lost_p": 0.1}),
    "refused sends": ({"refused_p": 0.02}, {"refused_p": 0.1}),
    "keys": ({"keys": 1}, {"keys": 12}),
    "clients": ({"processes": 2}, {"processes": 12}),
}
FIXED: Final = {**PLAIN, "txn": True, "sub_via": ["assign", "subscribe"], "length_max": 4, "crash_p": 0.02}
WAYS: Final[Mapping[str, tuple[Swarm, float]]] = {
    "fixed": (Swarm({**FIXED, "lost_p": 0.02, "refused_p": 0.02}, {}), 1.0),
    "all": (Swarm(PLAIN, AXES), 1.0),
    "half": (Swarm(PLAIN, AXES), HALF),
}


def shown(bug: str, fields: Mapping[str, Any]) -> bool:
    """Whether the checker finds a bug in one round."""
    load = dict(fields)
    trouble = Trouble(load.pop("lost_p", 0.0), load.pop("refused_p", 0.0))
    ops = simulate(ops=OPS, bugs=frozenset({bug}), trouble=trouble, **{**load, "sub_via": tuple(load["sub_via"])})
    settings = Settings(
        acks="all",
        idempotence=True,
        txn=bool(load["txn"]),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        sub_via=frozenset(load["sub_via"]),
        commits_fenced=bool(load["txn"]),
    )
    result = check.judge(in_memory(make_tables.of_ops(ops)), CheckOptions(settings=settings, checks=("queue",)))
    return any(anomaly.bad and anomaly.name in BUGS[bug].shows for anomaly in result.anomalies)


def ops_to_find(way: str, bug: str, repetition: int) -> float:
    """The number of operations until the bug is found; infinity if OPS_MAX did not suffice."""
    BUGS[bug] = replace(BUGS[bug], rate=RATES[bug] / RARER)
    swarm, share = WAYS[way]
    for number in range(OPS_MAX // OPS):
        if shown(bug, drawn(swarm, repetition, number, lambda fields: True, share).plan):
            return (number + 1) * OPS
    return float("inf")


RATES: Final = {name: bug.rate for name, bug in BUGS.items()}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"{'bug':20}" + "".join(f"{way:>10}" for way in WAYS), flush=True)
    totals: dict[str, list[float]] = {way: [] for way in WAYS}
    with ProcessPoolExecutor(2) as pool:
        for bug in PLANTED:
            rows = list(product(WAYS, range(repetitions)))
            found = list(pool.map(ops_to_find, *zip(*[(way, bug, n) for way, n in rows], strict=True)))
            medians = {}
            for way in WAYS:
                medians[way] = statistics.median(n for (of, _), n in zip(rows, found, strict=True) if of == way)
                totals[way].append(medians[way])
            print(f"{bug:20}" + "".join(f"{medians[way]:>10,.0f}" for way in WAYS), flush=True)
    print(f"{'median':20}" + "".join(f"{statistics.median(totals[way]):>10,.0f}" for way in WAYS))


if __name__ == "__main__":
    main()

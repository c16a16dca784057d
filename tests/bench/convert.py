"""The speed of reading and converting histories, on one core.

    python -m tests.bench.convert [--ops 100000]

An op consists of two lines, its invocation and its completion. Rates are per processor second, so that they depend
less on other work of the machine, and exclude the start of the interpreter. The requirement is 30,000 lines per second,
the goal 30,000 ops. There are two histories: one micro-op per op, and transactions of up to four.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checker import convert
from checker.tables import make_tables
from tests.bench import histories
from tests.bench.checker import edn_line
from tests.bench.histories import Shape

FLOOR = AIM = 30_000


def quietly(text: str) -> None:
    """Discards progress messages."""


def rate(name: str, ops: int, action: Callable[[], Any]) -> None:
    began = time.process_time()
    action()
    seconds = time.process_time() - began
    verdict = "aim met" if ops / seconds >= AIM else "floor met" if 2 * ops / seconds >= FLOOR else "MISSED"
    print(f"{name:34} {ops / seconds:10,.0f} ops/s {2 * ops / seconds:10,.0f} lines/s  {verdict}", flush=True)


def measure(shape: Shape, work: Path) -> None:
    """All conversions of one history."""
    edn, run, log = work / "h.edn", work / "run", work / "h.jsonl"
    history = histories.make(shape)
    with edn.open("w") as out:
        for data in histories.ops_of(history):
            out.write(edn_line(data))
    kind = "transactions" if shape.txn else "ops"
    print(f"{shape.ops:,} {kind}, {edn.stat().st_size / 1e6:.0f} MB of EDN")
    rate("EDN -> run (import)", shape.ops, lambda: convert.to_log(edn, run / "history", "run", quietly))
    rate("EDN -> tables", shape.ops, lambda: make_tables.make(edn, work / "tables"))
    rate("run -> tables", shape.ops, lambda: make_tables.make(run, work / "tables"))
    rate("run -> EDN (export)", shape.ops, lambda: convert.to_edn(run, work / "back.edn", quietly))
    rate("run -> EDN, gzipped", shape.ops, lambda: convert.to_edn(run, work / "back.edn.gz", quietly))
    rate("run -> log (export)", shape.ops, lambda: convert.to_jsonl(run, log, quietly))
    assert (work / "back.edn").read_bytes() == edn.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", type=int, default=100_000)
    ops = parser.parse_args().ops
    for txn in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            measure(Shape(ops, txn=txn), Path(folder))


if __name__ == "__main__":
    main()

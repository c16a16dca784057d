"""Finds clients that are never served, although the cluster is healthy and serves other clients.

A client is a slot: the processes with the same remainder modulo the number of clients, each of which replaces the one
before it. Only ops that need brokers are judged, and only those that were invoked after the cluster had settled. A slot
is unserved if there are at least `TRIES`, over at least `UNSERVED_NS`, none of them succeeded, and the slot was served
before. The final sends do not count: they may use a producer of the load (see `stuck_producers`). Nor do ops that the
client's process did not answer: the machine may be too busy to run it, for example to start another JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.op import OK, UNANSWERED

COLUMNS: Final = ("process", "type", "f", "invoke_ns", "complete_ns", "error", "final")
SERVED_FS: Final = ("send", "poll", "txn")
UNSERVED_NS: Final = 30_000_000_000
TRIES: Final = 3
NAMED: Final = 4


def unserved(ops: pa.Table, clients: int, since_ns: int) -> list[Mapping[str, Any]]:
    """Returns {"where", "state", "waited_s"} for each client that is never served.

    ops       the columns COLUMNS of the table of ops
    clients   the number of clients, at least 1
    since_ns  when the cluster had settled
    """
    final_sends = pc.and_(ops.column("final"), pc.equal(ops.column("f"), "send"))
    rows = ops.filter(pc.and_not(pc.is_in(ops.column("f"), value_set=pa.array(SERVED_FS)), final_sends))
    slot = rows.column("process").to_numpy(zero_copy_only=False) % clients
    invoke = rows.column("invoke_ns").fill_null(-1).to_numpy(zero_copy_only=False)
    complete = rows.column("complete_ns").fill_null(-1).to_numpy(zero_copy_only=False)
    good = np.array([each == OK for each in rows.column("type").to_pylist()], np.bool_)
    later = invoke >= since_ns
    answered = np.array([error not in UNANSWERED for error in rows.column("error").to_pylist()], np.bool_)
    served = set(slot[good & later].tolist())
    if not served:
        return []  # nobody is served: that is no trouble of a client
    found: list[Mapping[str, Any]] = []
    for each in sorted(set(slot[good & ~later].tolist()) - served):
        mine = np.flatnonzero((slot == each) & later & answered)
        if len(mine) < TRIES:
            continue
        span_ns = int(complete[mine].max()) - int(invoke[mine].min())
        if span_ns >= UNSERVED_NS:
            last = rows.column("error")[int(mine[np.argmax(invoke[mine])])].as_py() or "no answer"
            state = f"{len(mine)} operations, none of which succeeded; the last one: {last}"
            where = of_client(each, rows.column("process").take(pa.array(mine)).to_pylist())
            found.append({"where": where, "state": state, "waited_s": round(span_ns / 1e9, 1), "logged": {}})
    return found


def of_client(client: int, processes: Iterable[int]) -> str:
    """Returns a text that names a client and its processes, at most four of them."""
    numbers = sorted(set(processes))
    shown = [str(number) for number in numbers]
    if len(numbers) > NAMED:
        shown = [*shown[: NAMED - 1], f"... {numbers[-1]}"]
    return f"client {client} (process {', '.join(shown)})"

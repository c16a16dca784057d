"""Finds clients whose producer never sends again, although the healthy cluster serves the same client's next producer.

Only the final sends are judged (workloads.final_sends), and only those that were invoked after the cluster had settled.
A producer is stuck if at least `TRIES` send operations, over at least `UNSERVED_NS`, all failed before the client was
crashed, and one of the next producer succeeded. An operation has one record for each of several keys, and fails if one
of them does. Operations that the client's process did not answer end that process, and its producer, so only the sends
after the last of them count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checker.kernels.unserved import COLUMNS, TRIES, UNSERVED_NS, of_client
from harness.model.op import OK, UNANSWERED


def stuck_producers(ops: pa.Table, clients: int, since_ns: int) -> list[Mapping[str, Any]]:
    """Returns {"where", "state", "waited_s", "logged"} for each client whose producer is stuck.

    ops       the columns `unserved.COLUMNS` of the table of ops
    clients   the number of clients, at least 1; process % clients is the client
    since_ns  when the cluster had settled
    """
    chosen = ops.filter(pc.and_(ops.column("final"), pc.is_in(ops.column("f"), value_set=pa.array(["send", "crash"]))))
    slots: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in chosen.select(COLUMNS).to_pylist():
        if (row["invoke_ns"] or 0) >= since_ns:
            slots[row["process"] % clients].append(row)
    found: list[Mapping[str, Any]] = []
    for client, rows in sorted(slots.items()):
        rows.sort(key=lambda row: row["invoke_ns"])
        crash = next((at for at, row in enumerate(rows) if row["f"] == "crash"), len(rows))
        begin = max((at for at, row in enumerate(rows[:crash]) if row["error"] in UNANSWERED), default=-1) + 1
        old, new = rows[begin:crash], [row for row in rows[crash:] if row["f"] == "send"]
        served = any(row["type"] == OK for row in new)
        if len(old) < TRIES or any(row["type"] == OK for row in old) or not served:
            continue
        waited_ns = (old[-1]["complete_ns"] or 0) - old[0]["invoke_ns"]
        if waited_ns >= UNSERVED_NS:
            state = (
                f"{len(old)} operations with its producer, none of which succeeded as a whole; the last one: "
                f"{old[-1]['error'] or 'no answer'}; a new producer of the same client was served"
            )
            where = of_client(client, (row["process"] for row in old))
            found.append({"where": where, "state": state, "waited_s": round(waited_ns / 1e9, 1), "logged": {}})
    return found

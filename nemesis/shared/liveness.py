"""After all faults are healed, waits until the cluster has settled, and reports what stays stuck.

Three conditions are checked for each partition of the run: it has a leader; every replica is in sync; and no
transaction is open, because the last stable offset equals the high watermark. No client starts a transaction any more,
and a transaction whose client is gone is aborted after its timeout, which is ten seconds by default. A condition is
stuck if every look within `STUCK_S` found it violated in the same way; longer timeouts prolong this time. Nothing is
judged while a broker does not answer or is not registered: then the machine or the fault is to blame, and the wait for
a healthy cluster has said so.

The report quotes what the brokers logged about the partition lately. Sources: KIP-98 and KIP-890 (hanging
transactions); Kafka documentation, Design, 4.7 (replicas that are caught up join the ISR).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from harness.model.capabilities import ServerLogs, offers
from harness.model.errors_and_exit_codes import ClusterTrouble, HarnessError
from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import admin
from nemesis.shared.placement import node_of, placed

SETTLE: Final = "settle"  # the nemesis op
STUCK_S: Final = 30.0
LOOK_S: Final = 0.5
ABORT_S: Final = 20.0  # from the timeout of a transaction until its markers are written, generously
LOG_BYTES: Final = 1 << 20
LINES_MAX: Final = 6  # per broker
LINE_MAX: Final = 300
SHOWN: Final = 32
LEVELS: Final = re.compile(r"\] (WARN|ERROR|FATAL) ")


class Open(NamedTuple):
    """A violated condition.

    kind    partition, replica or transaction
    where   topic-partition
    state   what was seen; if it changes, the cluster makes progress
    """

    kind: str
    where: str
    state: str


def look(env: Env) -> Iterator[Open]:
    """Yields the violated conditions. Raises ClusterTrouble if a broker does not answer or is not registered."""
    brokers = admin(env, "brokers")
    if len(brokers) < len(env.cluster.nodes):
        raise ClusterTrouble(f"{len(brokers)} of {len(env.cluster.nodes)} brokers are registered")
    rows = placed(env)
    led = set()
    for row in rows:
        if row.leader is None:
            yield Open("partition", row.name, "it has no leader")
            continue
        led.add(row.at)
        missing = ", ".join(node_of(env, broker) for broker in row.replicas if broker not in row.isr)
        if missing:
            yield Open("replica", row.name, f"not in sync: {missing}; its leader is {node_of(env, row.leader)}")
    at = {key: (topic, number) for key, topic, number in admin(env, "places")}
    keys = [key for key in at if at[key] in led]
    # High watermarks are asked first: a last stable offset only grows, so if it is lower, a transaction is open.
    ends = {key: end for key, _, end in admin(env, "list_offsets", keys=keys, isolation_level="read_uncommitted")}
    for key, _, stable in admin(env, "list_offsets", keys=keys, isolation_level="read_committed"):
        if stable < ends[key]:
            topic, number = at[key]
            seen = f"its last stable offset stays at {stable}, below the high watermark {ends[key]}"
            yield Open("transaction", f"{topic}-{number}", seen)


def within_s(transaction_timeout_s: float) -> float:
    """Returns how long to wait: by then, the coordinators have aborted all transactions of clients that are gone."""
    return max(STUCK_S, transaction_timeout_s + ABORT_S)


def settle(env: Env, at_most_s: float = STUCK_S) -> dict[str, Any]:
    """Waits until no condition is violated, for at most `at_most_s` seconds. Returns the value of the op.

    This is {"settled_s": seconds} if none is; else {"waited_s", "stuck": [{"kind", "where", "state", "logged"}, ...]}.
    `stuck` has the violations that all looks found; `why` says what kept the last look from judging.
    """
    began = time.monotonic()
    since: dict[Open, float] = {}
    why = ""
    while True:
        try:
            now = set(look(env))
            why = ""
        except HarnessError as error:
            now, why = set(), str(error)
        waited_s = time.monotonic() - began
        since = {each: since.get(each, waited_s) for each in now}
        if not now and not why:
            return {"settled_s": round(waited_s, 1)}
        if waited_s >= at_most_s:
            break
        time.sleep(LOOK_S)
    stuck = sorted(each for each, first_s in since.items() if first_s < 2 * LOOK_S + 1.0)
    report = [{**each._asdict(), "logged": logged(env, each.where)} for each in stuck[:SHOWN]]
    return {"waited_s": round(waited_s, 1), "stuck": report, "count": len(stuck), **({"why": why} if why else {})}


def logged(env: Env, where: str) -> dict[str, list[str]]:
    """Returns node -> the last lines that its broker logged about a partition or a group.

    Warnings and errors come first. Lines that are lists of many partitions are left out.
    """
    found = {}
    named = re.compile(rf"{re.escape(where)}(?![\w-])")  # r-0-1 is not r-0-10
    for node in env.cluster.nodes:
        lines = [line for line in _tail(env, node) if named.search(line[:LINE_MAX])]
        serious = [line for line in lines if LEVELS.search(line[:LINE_MAX])]
        if lines:
            found[node] = [line[:LINE_MAX] for line in (serious or lines)[-LINES_MAX:]]
    return found


def _tail(env: Env, node: str) -> list[str]:
    if not offers(env.cluster, ServerLogs):
        return []
    read: Callable[[str, int | None], tuple[bytes, int]] = env.cluster.read_log
    try:
        _, size = read(node, None)
        return read(node, max(0, size - LOG_BYTES))[0].decode(errors="replace").splitlines()
    except (HarnessError, OSError):
        return []

"""move-log-dir: a server copies logs to another of its log directories, as an operator does to balance its disks.

While the broker copies a log, two logs of the partition exist: the current one, and a future one that fetches from it.
Once the future one has caught up, it replaces the current one. The moves are not undone: the next round moves other
logs, or the same ones back. Source: KIP-113; KIP-858 for KRaft.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import LogDir, LogDirs
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.randomness import Draw
from harness.protocol.error_codes import TopicPartition
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.admin_fault import Requested, aimed
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.verb import Verb


def places(dirs: Mapping[str, LogDir], prefix: str) -> dict[TopicPartition, str]:
    """Returns (topic, partition) -> path of its log's directory, for topics whose names begin with `prefix`."""
    return {
        at: path for path, each in dirs.items() for at, future in each.logs.items() if not future and _ours(at, prefix)
    }


def _ours(at: TopicPartition, prefix: str) -> bool:
    return at[0].startswith(prefix)


def moves(dirs: Mapping[str, LogDir], prefix: str, draw: Draw) -> dict[TopicPartition, str]:
    """Returns (topic, partition) -> path of its new directory, for a random half of the logs, rounded up."""
    now = places(dirs, prefix)
    online = sorted(path for path, each in dirs.items() if not each.error)
    half = draw.shuffled(sorted(now))[: -(-len(now) // 2)]
    others = {at: [path for path in online if path != now[at]] for at in half}
    return {at: draw.choice(free) for at, free in sorted(others.items()) if free}


def _named(path: str) -> str:
    return path.rpartition("/")[2]


def _move(target: str, env: Env) -> dict[str, Any]:
    cluster, prefix = env.cluster, env.roles.topic_prefix()
    assert isinstance(cluster, LogDirs)
    _, names = aimed(env, target)
    wanted: dict[str, dict[TopicPartition, str]] = {}
    before: dict[str, dict[TopicPartition, str]] = {}
    errors: list[str] = []
    for node in names:
        dirs = cluster.log_dirs(node)
        before[node], wanted[node] = places(dirs, prefix), moves(dirs, prefix, env.draw)
        paths = {path: [at for at, to in wanted[node].items() if to == path] for path in set(wanted[node].values())}
        errors += cluster.move_logs(node, paths).values() if paths else ()
    done: dict[str, dict[str, list[str]]] = {}

    def all_moved() -> bool:
        for node, to in wanted.items():
            now = places(cluster.log_dirs(node), prefix)
            arrived = [at for at, path in to.items() if now.get(at) == path]
            done[node] = {f"{at[0]}-{at[1]}": [_named(before[node][at]), _named(to[at])] for at in arrived}
        return sum(map(len, done.values())) >= sum(map(len, wanted.values()))

    wait_for(all_moved, effect_s(env))
    moved = {node: logs for node, logs in done.items() if logs}
    late = sum(map(len, wanted.values())) - sum(map(len, moved.values()))
    more: dict[str, Any] = {"errors": sorted(set(errors))} if errors else {}
    return hit(names, bool(moved), moved=moved, **({"not_moved": late} if late else {}), **more)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"move-log-dir:{target}"
    once = fault_op("move-log-dir", name, target, "")
    nemesis = Requested("move-log-dir", partial(_move, target))
    return Fault(name, nemesis, repeated(once, timing), NOTHING, (LogDirs,), takes_turns=True)


VERB: Final = Verb(
    "make a server copy a random half of its logs to another of its log directories (AlterReplicaLogDirs); not undone",
    _fault,
    short={"move-log-dir": "one"},
)

"""Faults of a run: each is a generator that runs along with the clients, and is recorded as nemesis operations."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from tests.oracle.log import Partition

if TYPE_CHECKING:
    from tests.oracle.run import World

Script = Generator[None, None, None]


def catch_up(world: World, partition: Partition) -> None:
    """Replicas that fell behind by themselves catch up, except those on servers that are down."""
    partition.behind &= world.down


def _node(copy: int) -> str:
    return f"n{copy + 1}"


def _leave(world: World, copies: set[int]) -> None:
    """Servers go down: a clean election if a replica in sync is left, an unclean one if it is allowed."""
    world.down |= copies
    for partition in world.logs.partitions.values():
        partition.behind |= copies & set(range(partition.copies))
        if partition.leader not in copies:
            partition.replicate()
            continue
        in_sync = sorted(partition.isr - copies)
        others = sorted(set(range(partition.copies)) - copies - world.down)
        partition.isr -= copies
        if in_sync:
            partition.elect(world.draw.choice(in_sync))
        elif others and world.case.unclean_enabled:
            partition.elect(world.draw.choice(others))
            partition.isr = {partition.leader}
        else:
            partition.isr = {partition.leader}
            partition.available = False
        partition.isr.add(partition.leader)


def _back(world: World, copies: set[int]) -> None:
    world.down -= copies
    for partition in world.logs.partitions.values():
        partition.behind -= copies
        if partition.leader not in world.down:
            partition.available = True
            partition.behind.discard(partition.leader)
            partition.replicate()


def _some_leader(world: World) -> int:
    return world.logs.partitions[world.draw.below(world.case.keys)].leader


def kill(world: World, name: str) -> Script:
    yield from _wait(world)
    count = 1 if name.endswith("leader") else min(2, world.case.replication)
    first = _some_leader(world)
    copies = {(first + at) % world.case.replication for at in range(count)}
    nodes = sorted(map(_node, copies))
    world.fault("kill", name, "start", "invoke", {"target": name.partition(":")[2]})
    _leave(world, copies)
    yield
    world.fault("kill", name, "start", "complete", {"nodes": nodes, "took_effect": True})
    yield from _wait(world)
    world.fault("restart", name, "stop", "invoke", {"target": name.partition(":")[2]})
    _back(world, copies)
    world.fault("restart", name, "stop", "complete", {"nodes": nodes})


def elect_unclean(world: World, name: str) -> Script:
    """A replica falls behind, the others are killed, and it becomes leader."""
    yield from _wait(world)
    world.fault("elect-unclean", name, "start", "invoke", {"target": "leader"})
    partition = world.logs.partitions[world.draw.below(world.case.keys)]
    late = world.draw.choice([copy for copy in range(partition.copies) if copy != partition.leader])
    world.down.add(late)
    mine = [each for each in world.logs.partitions.values() if each.leader == partition.leader]
    for each in mine:
        each.behind.add(late)
        each.replicate()
    yield from _wait(world)
    for each in mine:
        each.elect(late)
        each.isr = {late}
        each.available = True
    world.down.discard(late)
    world.fault("elect-unclean", name, "start", "complete", {"nodes": [_node(late)], "took_effect": True})
    yield from _wait(world)
    world.fault("bring-back", name, "stop", "invoke", {"target": "leader"})
    _back(world, {late})
    world.fault("bring-back", name, "stop", "complete", {"nodes": [_node(late)]})


def power_loss(world: World, name: str) -> Script:
    """Servers lose what was not on disk; if no other replica is in sync, one with what is left becomes leader."""
    yield from _wait(world)
    copies = set(range(world.case.replication)) if name.endswith("all") else {_some_leader(world)}
    nodes = sorted(map(_node, copies))
    world.fault("power-loss", name, "start", "invoke", {"target": name.partition(":")[2]})
    for partition in world.logs.partitions.values():
        for copy in copies:
            partition.reach[copy] = min(partition.reach[copy], partition.flushed[copy])
    _lead_again(world, copies)
    yield
    world.fault("power-loss", name, "start", "complete", {"nodes": nodes, "took_effect": True})
    yield from _wait(world)
    world.fault("power-on", name, "stop", "invoke", {"target": name.partition(":")[2]})
    _back(world, copies)
    world.fault("power-on", name, "stop", "complete", {"nodes": nodes})


def truncate_tail(world: World, name: str) -> Script:
    """Truncates the logs of a server while it is down."""
    yield from _wait(world)
    copy = _some_leader(world)
    world.fault("truncate-tail", name, "start", "invoke", {"target": "leader"})
    for partition in world.logs.partitions.values():
        if copy < partition.copies:
            partition.reach[copy] = max(0, partition.reach[copy] - world.draw.between(1, 3))
            partition.flushed[copy] = min(partition.flushed[copy], partition.reach[copy])
    _lead_again(world, {copy})
    yield
    world.fault("truncate-tail", name, "start", "complete", {"nodes": [_node(copy)], "took_effect": True})
    yield from _wait(world)
    world.fault("start", name, "stop", "invoke", {"target": "leader"})
    _back(world, {copy})
    world.fault("start", name, "stop", "complete", {"nodes": [_node(copy)]})


def _lead_again(world: World, copies: set[int]) -> None:
    """After damage to replicas: another replica in sync becomes leader, or the damaged leader returns as it is."""
    world.down |= copies
    for partition in world.logs.partitions.values():
        partition.behind |= copies & set(range(partition.copies))
        in_sync = sorted(partition.isr - copies)
        if world.case.elr and not in_sync:  # others with all committed records may lead (KIP-966)
            whole = {copy for copy in range(partition.copies) if partition.reach[copy] >= partition.high_watermark}
            in_sync = sorted(whole - world.down)
            if not in_sync and whole - copies and partition.leader in copies:  # when they are back
                partition.elect(min(whole - copies))
                partition.isr, partition.available = {partition.leader}, False
                continue
        if partition.leader in copies:
            back = in_sync or sorted(partition.isr & copies)
            partition.elect(world.draw.choice(back))
            partition.isr = set(in_sync) | {partition.leader}
            partition.available = bool(in_sync)
            partition.behind.discard(partition.leader)
        else:
            partition.isr -= copies
            partition.replicate()


def retention(world: World, name: str) -> Script:
    yield from _wait(world)
    starts = {key: partition.start for key, partition in world.logs.partitions.items()}
    before = world.retention_ms
    world.fault("config-change", name, "start", "invoke", {"target": "retention"})
    world.retention_ms = 1000
    for _ in range(12):
        if any(partition.start > starts[key] for key, partition in world.logs.partitions.items()):
            break
        yield
    done = any(partition.start > starts[key] for key, partition in world.logs.partitions.items())
    world.fault("config-change", name, "start", "complete", {"nodes": [], "took_effect": done})
    yield from _wait(world)
    world.fault("config-back", name, "stop", "invoke", {"target": "retention"})
    world.retention_ms = before
    deleted = sorted(
        [key, partition.start] for key, partition in world.logs.partitions.items() if partition.start > starts[key]
    )
    world.fault(
        "config-back", name, "stop", "complete", {"nodes": [], "deleted": deleted, "took_effect": bool(deleted)}
    )


def compact(world: World, name: str) -> Script:
    yield from _wait(world)
    world.fault("config-change", name, "start", "invoke", {"target": "compact"})
    world.compacting = True
    world.fault("config-change", name, "start", "complete", {"nodes": [], "took_effect": True})
    yield from _wait(world)
    yield from _wait(world)
    world.fault("config-back", name, "stop", "invoke", {"target": "compact"})
    world.compacting = False
    cleaned = sorted([key, partition.cleaned] for key, partition in world.logs.partitions.items())
    value: dict[str, Any] = {"nodes": []}
    if world.case.keep_cleaned == "all":
        value["cleaned"] = cleaned
    elif world.case.keep_cleaned == "some":
        value["cleaned"] = cleaned[1:]
    world.fault("config-back", name, "stop", "complete", value)


def min_isr_down(world: World, name: str) -> Script:
    yield from _wait(world)
    world.fault("config-change", name, "start", "invoke", {"target": "min-isr-down"})
    for partition in world.logs.partitions.values():
        partition.min_isr = 1
    world.fault("config-change", name, "start", "complete", {"nodes": [], "took_effect": True})
    yield from _wait(world)
    world.fault("config-back", name, "stop", "invoke", {"target": "min-isr-down"})
    for partition in world.logs.partitions.values():
        partition.min_isr = world.case.min_isr
    world.fault("config-back", name, "stop", "complete", {"nodes": []})


def delete_records(world: World, name: str) -> Script:
    yield from _wait(world)
    world.fault("delete-records", name, "", "invoke", {"target": "some"})
    yield
    deleted = []
    for key, partition in sorted(world.logs.partitions.items()):
        if partition.high_watermark > partition.start and world.draw.random() < 0.6:
            partition.delete_before(partition.start + (partition.high_watermark - partition.start + 1) // 2)
            deleted.append([key, partition.start])
    world.fault("delete-records", name, "", "complete", {"nodes": [], "took_effect": bool(deleted), "deleted": deleted})


def clock_bump(world: World, name: str) -> Script:
    yield from _wait(world)
    world.fault("clock-bump", name, "start", "invoke", {"target": "one"})
    world.clock_ahead_ms = world.draw.choice((-1, 1)) * world.draw.choice((250, 2000, 32_000))
    yield
    value = {"nodes": ["n1"], "ahead_s": {"n1": world.clock_ahead_ms / 1000}, "took_effect": True}
    world.fault("clock-bump", name, "start", "complete", value)
    yield from _wait(world)
    world.fault("clock-reset", name, "stop", "invoke", {"target": "one"})
    world.clock_ahead_ms = 0
    world.fault("clock-reset", name, "stop", "complete", {"nodes": ["n1"]})


def _wait(world: World) -> Script:
    for _ in range(world.draw.between(1, 6)):
        yield


SCRIPTS: dict[str, Callable[[World, str], Script]] = {
    "kill:leader": kill,
    "kill:majority": kill,
    "elect-unclean:leader": elect_unclean,
    "power-loss:all": power_loss,
    "power-loss:leader": power_loss,
    "truncate-tail:leader": truncate_tail,
    "config-change:retention": retention,
    "config-change:compact": compact,
    "config-change:min-isr-down": min_isr_down,
    "delete-records:some": delete_records,
    "clock-bump:one": clock_bump,
}

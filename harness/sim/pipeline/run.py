"""A simulated run of the pipeline: writers, and instances that join, leave, crash and pause.

It needs no brokers and does not wait; the same seed gives the same run. `files` returns the content of the files that a
real run leaves in its folder, so that the checks can read a simulated run like a real one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from harness.model.randomness import Draw
from harness.pipeline_app.ports import Failed, Options
from harness.sim.pipeline.world import INPUT, OUTPUT, Killed, OutputRecord, World

SLOTS: Final = 3
PARTITIONS: Final = 4
KEYS: Final = 8
TURN_NS: Final = 50_000_000
QUIET: Final = 100  # turns at the end, in which the instances process all remaining records
DISTURBED: Final = 0.1  # fraction of the turns in which an instance joins, leaves, crashes or pauses


def simulate(options: Options, seed: int, turns: int = 300, eager: bool = True) -> World:
    """Simulates a run: first a number of turns in which instances join, leave, are killed and are paused, then turns
    without such events.

    eager  rebalances revoke all partitions, not only those that get another owner
    """
    draw = Draw.of(seed, "pipeline", 0)
    world = World(replace(options, seed=seed), PARTITIONS, draw, eager)
    for slot in range(SLOTS):
        world.join(slot)
    for turn in range(turns + QUIET):
        world.now += TURN_NS
        if turn < turns:
            for _ in range(draw.below(8)):
                world.write(KEYS)
            if draw.random() < DISTURBED:
                _disturb(world, draw)
        elif turn == turns:
            _wake(world)
        for process in world.awake():
            if process in world.members:
                _step(world, process)
    return world


def _disturb(world: World, draw: Draw) -> None:
    awake = world.awake()
    if not awake:
        _wake(world)
        return
    process = draw.choice(awake)
    member = world.members[process]
    vacant = sorted(set(range(SLOTS)) - {one.slot for one in world.members.values()})
    kind = draw.choice(("leave", "kill", "sleep", "join", "move"))
    if world.frozen and draw.random() < 0.5:
        _wake(world)
    elif kind == "join" and vacant:
        world.join(draw.choice(vacant))
    elif kind == "leave" and len(awake) > 1:
        with contextlib.suppress(Failed, Killed):
            member.instance.close(leave=True)
        world.leave(process)
    elif kind == "kill":
        member.dies_in = 1 + draw.below(8)
    elif kind == "sleep" and len(awake) > 1 and member.positions:
        world.frozen.add(process)
        member.lost_in, member.due = 2, False
        world.rebalance()
        if draw.random() < 0.3:
            world.join(member.slot)
    elif kind == "move":
        world.rebalance()


def _wake(world: World) -> None:
    world.frozen.clear()


def _step(world: World, process: int) -> None:
    member = world.members[process]
    try:
        member.instance.step()
    except (Failed, Killed) as end:
        if isinstance(end, Failed):
            with contextlib.suppress(Failed):
                member.instance.close(leave=False)
        world.leave(process)
        if all(other.slot != member.slot for other in world.members.values()):
            world.join(member.slot)


# --- files of the run ---------------------------------------------------------------------------------


def files(world: World) -> dict[str, list[dict[str, Any]]]:
    """Returns path in the run folder -> the content of the file, as a list of JSON objects (for a
    .jsonl file, its lines).
    """
    options = world.options
    about = {"schema": 1, "mode": options.mode, "transform": options.transform, "input": [INPUT]}
    about |= {
        "output": [OUTPUT],
        "group": "g",
        "mistake": options.mistake,
        "client": "sim",
        "instances": SLOTS,
    }
    committed = {f"{at[0]}/{at[1]}": mark.offset for at, mark in world.marks.items()}
    return {
        "pipeline/pipeline.json": [about],
        "pipeline/committed.json": [{"group": "g", "offsets": committed}],
        "pipeline/sent-0.jsonl": world.sent,
        "pipeline/read-0.jsonl": list(_read(world)),
        **{f"events/instance-{process}.jsonl": lines for process, lines in world.events.items()},
    }


def _read(world: World) -> Iterator[dict[str, Any]]:
    """Yields the lines that a real run writes when it reads all topics at its end: first the records, then the end
    offsets.
    """
    no_instance = {"n": None, "instance": None, "incarnation": None, "generation": None}
    for (topic, partition), records in world.inputs.items():
        for offset, id_, key in records:
            yield {
                "side": "input",
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "id": id_,
                "key": key,
                **no_instance,
                "committed": True,
                "time_ns": 0,
            }
    for (topic, partition), entries in world.outputs.items():
        for offset, record in enumerate(entries):
            if record is not None:
                place = {"topic": topic, "partition": partition, "offset": offset}
                yield {"side": "output", **place, **_record_fields(record)}
    ends = {f"{at[0]}/{at[1]}": end for at, end in world.ends.items()}
    ends |= {f"{at[0]}/{at[1]}": len(entries) for at, entries in world.outputs.items()}
    yield {"end": True, "ends": ends, "caught_up": True}


def _record_fields(record: OutputRecord) -> dict[str, Any]:
    id_, key, n = record.output
    return {
        "id": id_,
        "key": key,
        "n": n,
        "instance": record.instance,
        "incarnation": record.incarnation,
        "generation": record.generation,
        "committed": bool(record.committed),
        "time_ns": record.time_ns,
    }

"""Judges simulated runs with share groups."""

from __future__ import annotations

from checker.checks import share
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_options import CheckOptions, Settings, ShareGroups
from harness.model.check_result import Result
from harness.model.randomness import Draw
from harness.sim.share.run import simulate
from harness.sim.share.world import Shape


def options(shape: Shape) -> CheckOptions:
    """The options that a run of this shape is judged by."""
    return CheckOptions(
        settings=Settings(
            acks="all",
            txn=shape.txn,
            isolation_level=shape.isolation_level,  # type: ignore[arg-type]
            broker={"auto.leader.rebalance.enable": "false"},
            share=ShareGroups(
                lock_ms=shape.lock_ms,
                delivery_limit=shape.limit,
                isolation_level=shape.isolation_level,  # type: ignore[arg-type]
                auto_offset_reset="latest" if shape.reset_latest else "earliest",
                acknowledgement="implicit" if shape.implicit else "explicit",
            ),
        ),
        checks=("share",),
    )


def judged(shape: Shape, bugs: frozenset[str] = frozenset()) -> Result:
    """The verdict of the share check on a simulated run."""
    return share.check(in_memory(of_ops(simulate(shape, bugs))), options(shape))


def shape_of(seed: int) -> Shape:
    """Returns a random shape for a seed."""
    draw = Draw.of(seed, "sim-share-shape", 0)
    txn = draw.random() < 0.4
    return Shape(
        seed=seed,
        load_s=draw.between(3, 8),
        keys=draw.between(1, 3),
        groups=draw.between(1, 2),
        members=draw.between(1, 4),
        writers=draw.between(1, 2),
        txn=txn,
        isolation_level="read_uncommitted" if txn and draw.random() < 0.3 else "read_committed",
        lock_ms=draw.choice((500, 1_500, 4_000)),
        limit=draw.between(1, 5),
        trouble=draw.choice((0.0, 0.02, 0.08)),
        faults=draw.choice((0, 0, 1, 3)),
        implicit=draw.random() < 0.25,
        reset_latest=draw.random() < 0.25,
    )

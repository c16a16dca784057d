"""Judges simulated runs with share groups."""

from __future__ import annotations

from checker.checks import share
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_options import CheckOptions, Settings, ShareGroups
from harness.model.check_result import Result
from harness.sim.share.run import Shape, simulate


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

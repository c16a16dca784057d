"""The order of the steps of an upgrade, and their turns with other faults."""

from __future__ import annotations

import pytest

from harness.model.fault_and_generator_protocols import Context, Generator, Pending
from harness.model.op import Op
from nemesis import table
from nemesis.schedule import upgrade_course
from nemesis.schedule.timing import Timing

TIMING = Timing(1.0, 10.0)
ALL = ("upgrade:next", "roll-back:last", "finalize:features", "downgrade:features")


def test_phases_are_in_the_order_of_an_upgrade() -> None:
    assert upgrade_course.phases(["finalize:features", "upgrade:next"]) == (
        ("upgrade:next", "complete"),
        ("finalize:features", "complete"),
    )
    assert upgrade_course.phases(ALL) == (
        ("upgrade:next", "half"),
        ("roll-back:last", "complete"),
        ("upgrade:next", "complete"),
        ("finalize:features", "complete"),
        ("downgrade:features", "complete"),
    )


class Servers:
    """Three servers as the nemesis would report them; counts how many run the new version."""

    def __init__(self) -> None:
        self.new, self.final = 0, False

    def answer(self, fault: str) -> dict[str, bool]:
        self.new += {"upgrade": 1, "roll-back": -1}.get(upgrade_course.verb_of(fault), 0)
        self.final |= fault.startswith("finalize")
        complete = {
            "upgrade": self.new == 3, "roll-back": self.new == 0, "finalize": self.final, "downgrade": True
        }  # fmt: skip
        return {"half": self.new >= 2, "complete": complete.get(upgrade_course.verb_of(fault), False)}


def _played(names: tuple[str, ...], limit_s: int = 300) -> list[str]:
    """Returns the fs of the ops, in order. Every op completes at once."""
    faults = table.faults(names, TIMING)
    generator: Generator | None = table.under_load(faults, (), TIMING)
    servers, fs = Servers(), []
    for second in range(limit_s):
        ctx = Context(second * 10**9, (), (), True, 0)
        answer = generator.op(ctx) if generator else None
        if answer is None:
            break
        op, generator = answer
        if isinstance(op, Pending):
            continue
        fs.append(op.f)
        fault = str(op.extra["fault"])
        for phase, value in (("invoke", op.value), ("complete", servers.answer(fault))):
            done: Op = op.with_(value=value, extra={**op.extra, "phase": phase}, time_ns=ctx.time_ns)
            generator = generator.update(ctx, done)
    return fs


def test_steps_alone_end_when_all_are_done() -> None:
    assert _played(("upgrade:next", "finalize:features")) == ["upgrade"] * 3 + ["finalize"]
    assert _played(ALL) == ["upgrade"] * 2 + ["roll-back"] * 2 + ["upgrade"] * 3 + ["finalize", "downgrade"]


def test_other_faults_have_a_round_between_the_steps_and_go_on_after_them() -> None:
    fs = _played(("kill:leader", "upgrade:next", "finalize:features"))
    round_ = ["kill", "restart"]
    assert fs[:12] == ["upgrade", *round_, "upgrade", *round_, "upgrade", *round_, "finalize", *round_]
    assert fs[12:16] == round_ * 2
    assert set(fs[12:]) == set(round_)


@pytest.mark.parametrize("name", ["upgrade", "roll-back", "finalize", "downgrade", "finalize:kraft"])
def test_every_verb_has_a_short_name_or_a_target(name: str) -> None:
    assert table.canonical(name, ["n1"])[0].partition(":")[0] in upgrade_course.VERBS

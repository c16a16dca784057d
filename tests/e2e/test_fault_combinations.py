"""Random combinations of three faults at independent intervals: every run ends with a verdict, in time."""

from __future__ import annotations

import functools
import itertools
import json
import time
from pathlib import Path

import pytest
import yaml

from harness.cli import fault_support
from harness.experiments.swarm.draw_rounds import entry_of_schedule
from harness.experiments.swarm.spec import is_plan
from harness.model.capabilities import Voters
from harness.model.randomness import Draw
from nemesis import table
from nemesis.schedule.timing import Timing
from tests.e2e.harness_command import footprint, left_behind, run

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.alone]

LOAD_S = 20
MORE_S = 60
FINAL_S = 14  # twice, for healing and for final polls; a cluster that stays broken is not read to the end
LOAD = {
    "acks": "all",
    "idempotence": True,
    "txn": True,
    "sub_via": ["assign", "subscribe"],
    "time_limit_s": LOAD_S,
    "final_time_limit_s": FINAL_S,
}


@functools.cache
def everything() -> list[str]:
    """The names of all faults that a local cluster supports on this machine, and that a run of this load may have."""
    found = []
    for row in fault_support.rows():
        if not row.refused["local"]:
            found += [f"{row.verb}:{target}" for target in table.VERBS[row.verb].targets]
    possible = [name for name in found if is_plan({**LOAD, "nemesis": [name]})]
    made = table.faults(possible, Timing())
    return [fault.name for fault in made if Voters not in fault.needs]  # only dedicated controllers leave and join


def combination(seed: int) -> list[dict[str, object]]:
    """A schedule of three different verbs at independent intervals, which a run may have together."""
    drawn = (_drawn(Draw.of(seed, "combination", n)) for n in itertools.count())
    return next(lines for lines in drawn if is_plan({**LOAD, "schedule": lines}))


def _drawn(draw: Draw) -> list[dict[str, object]]:
    names = everything()
    verbs = draw.shuffled(sorted({name.partition(":")[0] for name in names}))[:3]
    lines: list[dict[str, object]] = []
    for verb in verbs:
        name = draw.choice([name for name in names if name.startswith(f"{verb}:")])
        lines.append(entry_of_schedule(name, draw))
    return lines


@pytest.mark.repeat(0, 5, 30)
@pytest.mark.timeout(LOAD_S + MORE_S + 60)
def test_every_combination_ends_with_a_verdict_in_time(tmp_path: Path, repetition: int) -> None:
    before = footprint()
    schedule = combination(repetition)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**LOAD, "schedule": schedule, "seed": repetition}))
    began = time.time()
    ran = run(tmp_path / "runs", "--plan", str(tmp_path / "plan.yaml"))
    took_s = (ran.folder / "results.json").stat().st_mtime - began  # plots and teardown come after the verdict
    assert ran.code in (0, 1, 2), ran.out + ran.err
    assert ran.result["valid"] in (True, False, "unknown"), json.dumps(schedule)
    hit = {op["extra"]["fault"] for op in ran.nemesis if op["extra"].get("span") != "stop" and "fault" in op["extra"]}
    assert hit == {line["fault"] for line in schedule}
    assert [op["f"] for op in ran.nemesis].count("heal") == 2
    assert took_s < LOAD_S + MORE_S, f"{took_s:.0f} s: {json.dumps(schedule)}"
    assert left_behind(before) == {}

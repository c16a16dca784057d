"""Makes run folders for the tests: a history, its plan, and the checker's results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from checker.check import check_plain
from harness.history_writer import write_json
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.op import INFO, NEMESIS, Op

PLAN: Final = {
    "schema": 1,
    "workload": "queue",
    "nemesis": ["kill:leader"],
    "acks": "all",
    "time_limit_s": 30.0,
    "seed": 1,
    "versions": {"kafka": "4.1.1"},
    "started": "2026-01-02T03:04:05Z",
}
S: Final = 1_000_000_000


def nemesis(at_s: float, f: str, span: str, phase: str, value: Any, fault: str = "kill:leader") -> Op:
    """A nemesis op, still without its index."""
    extra = {"fault": fault, "span": span, "phase": phase}
    return Op(-1, int(at_s * S), NEMESIS, INFO, f, value, None, extra)


def killed(begin_s: float, end_s: float, node: str, effect: bool = True, fault: str = "kill:leader") -> list[Op]:
    """The four ops of a node that is killed and started again."""
    hit = {"nodes": [node], "took_effect": effect, "new_leaders": {"t-0": "n3"} if effect else {}}
    return [
        nemesis(begin_s, "kill", "start", "invoke", {"target": "leader"}, fault),
        nemesis(begin_s + (end_s - begin_s) / 4, "kill", "start", "complete", hit, fault),
        nemesis(end_s - 0.001, "restart", "stop", "invoke", {"target": "leader"}, fault),
        nemesis(end_s, "restart", "stop", "complete", {"nodes": [node]}, fault),
    ]


def woven(*parts: Iterable[Op]) -> list[Op]:
    """Ops in order of time, with new indices."""
    ordered = sorted((op for part in parts for op in part), key=lambda op: op.time_ns)
    return [op.with_(index=index) for index, op in enumerate(ordered)]


def recorded(runs: Path, name: str, ops: Sequence[Op], **plan: Any) -> Path:
    """A run folder with a history and without results."""
    folder = runs / name
    (folder / "history").mkdir(parents=True)
    lines = [op_json.header(name, 0, 0, 0), *map(op_json.encode, ops)]
    (folder / "history" / "00000.jsonl").write_bytes(b"".join(lines))
    (folder / "plan.yaml").write_text(yaml.safe_dump({**PLAN, "run": name, **plan}))
    return folder


def judged(folder: Path, options: CheckOptions | None = None) -> Result:
    """Checks a run without Spark, and writes its results.json."""
    result = check_plain(folder, options or CheckOptions())
    write_json(folder / "results.json", to_data(result))
    return result

"""Makes folders of runs for the web tests: many small ones, unusual ones, experiments and matrices."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from harness.history_writer import OWNER, write_json
from harness.model import op_json
from harness.model.check_result import AnomalyFound, Result, to_data
from harness.model.op import INVOKE, OK, Op
from tests.unit.report.folders import PLAN, killed, recorded, woven

FAULTS: Final = ("kill:leader", "pause:leader", "isolate:leader", "power-loss:all", "kill:client")
BAD: Final = ("lost-write", "duplicate", "G1a", "unseen")
S: Final = 1_000_000_000


def make(runs: Path, name: str, number: int) -> Path:
    """A checked run; its number determines verdict, faults, settings and length."""
    draw = random.Random(number)
    folder = runs / name
    (folder / "history").mkdir(parents=True)
    last = {"index": 0, "time_ns": draw.randrange(20, 90) * S, "process": 0, "type": "invoke", "f": "poll"}
    lines = [op_json.header("run", 0, 0, 0), orjson.dumps({**last, "value": []}) + b"\n"]
    (folder / "history" / "00000.jsonl").write_bytes(b"".join(lines))
    day, second = divmod(number, 86_400)
    plan = {
        **PLAN,
        "run": name,
        "seed": number,
        "nemesis": [FAULTS[number % len(FAULTS)]],
        "acks": ("all", "1", "0")[number % 3],
        "txn": number % 7 == 0,
        "workload": "queue" if number % 4 else "delivery",
        "started": f"2026-03-{day + 1:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z",
    }
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    write_json(folder / "results.json", to_data(result(number)))
    return folder


def result(number: int) -> Result:
    """The result of a run: every fifth is invalid, every eleventh of the others unknown."""
    figures = {"ops": 100 + number, "sent": 50, "acknowledged": 49, "rates": {"lost": number / 1e6}}
    if number % 5 == 0:
        found = AnomalyFound(BAD[number % len(BAD)], "what it is", number + 1, True, True, ({"key": 1, "op": 2},))
        return Result("invalid", True, (), (found,), figures)
    if number % 11 == 0:
        return Result("unknown", None, ("nothing was acknowledged",), (), figures)
    return Result("valid", None, (), (), figures)


def many(runs: Path, count: int) -> list[str]:
    """Makes that many runs; returns their names, oldest first."""
    names = [f"20260301T{number:06}-run" for number in range(count)]
    for number, name in enumerate(names):
        make(runs, name, number)
    return names


def going(runs: Path, name: str = "20260401T000000-going", sends: int = 60) -> Path:
    """A run in progress: its folder has an owner, no results, and a fault is active."""
    ops: list[Op] = []
    for number in range(sends):
        at = number * S // 10
        ops.append(Op(-1, at, number % 3, INVOKE, "send", [["send", 1, number]]))
        offset = number if number != 40 else 3  # the 40th has the offset of another record
        ops.append(Op(-1, at + S // 50, number % 3, OK, "send", [["send", 1, [offset, number]]]))
    polled = [["poll", [[1, [[number, number] for number in range(30)]]]]]
    ops.append(Op(-1, sends * S // 10, 4, OK, "poll", polled))
    folder = recorded(runs, name, woven(ops, killed(1.0, 3.0, "n1"), killed(4.0, 50.0, "n2")[:2]))
    (folder / OWNER).write_text("1")
    later = time.time() + 3600  # the run looks recently written, however long the test takes
    os.utime(folder / "history" / "00000.jsonl", (later, later))
    return folder


def experiment(runs: Path, folder: str, began: str, k: int, n: int, ids: list[str], **more: Any) -> Path:
    """Results of `harness experiment run` with one case."""
    case = {"name": "bad", "title": "loses records", "variant": "", "plan": {}, "runs": n}
    results = {
        "schema": 1,
        "experiment": "acks-1",
        "title": "acks=1 loses records",
        "kind": "guarantee",
        "source": "documentation",
        "began": began,
        "cases": [
            {
                "case": case,
                "versions": "Kafka 4.1.1",
                "seen": [["lost-write", k, n, k == n]],
                "attempts": [{"valid": "invalid", "folder": f"/elsewhere/runs/{one}"} for one in ids],
            }
        ],
        **more,
    }
    path = runs / "experiments" / folder / "results.json"
    path.parent.mkdir(parents=True)
    write_json(path, results)
    return path


def matrix(runs: Path, folder: str, codes: list[int]) -> Path:
    """Results of `harness matrix` with one cell."""
    cells = [
        {
            "name": "queue kill:leader",
            "seed": n,
            "exit_code": code,
            "attempt": {"valid": "valid", "folder": "x/y"},
        }
        for n, code in enumerate(codes)
    ]
    path = runs / "matrix" / folder / "results.json"
    path.parent.mkdir(parents=True)
    write_json(path, cells)
    return path

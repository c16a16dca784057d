"""A run folder of a pipeline with findings, in the form that its checks write, made by hand without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from harness.history_writer import write_json
from harness.model import op as ops_
from harness.model.check_result import AnomalyFound, Result, to_data
from harness.model.op import Op
from tests.unit.report.folders import S, judged, killed, recorded, woven

NAME: Final = "20260102T030405-pipeline"
LOG: Final = 5  # the log of partition 2 of input topic 1 of 2
RECORD: Final = {"topic": f"{NAME}-1", "partition": 2, "offset": 1, "id": 43, "key": 7, "n": 0}
DONE: Final = {"instance": "1", "incarnation": 4}
MISSING: Final[dict[str, Any]] = {
    **RECORD,
    "copies": 0,
    "expected": 1,
    **DONE,
    "generation": 2,
    "time_ns": 9 * S,
    "outputs": [],
    "around": [
        {"time_ns": 5 * S, "event": "kill:leader"},
        {"time_ns": 8 * S, "event": "polled", "first": 1, "last": 1, **DONE, "generation": 2},
    ],
}
GAP: Final[dict[str, Any]] = {
    "topic": f"{NAME}-1",
    "partition": 2,
    "first": 0,
    "until": 2,
    "said": "reading began at 2",
    "event": "position",
    **DONE,
    "generation": 2,
    "time_ns": 9 * S,
    "around": [],
}


def piped(runs: Path) -> Path:
    """A leader is killed from 5 to 15 s; the record of id 43 is sent before, and lacks its output."""

    def op(at_s: float, process: int, type_: str, f: str, value: Any) -> Op:
        return Op(-1, int(at_s * S), process, type_, f, value)

    ops = woven(
        killed(5, 15, "n2"),
        [
            op(1, 0, ops_.INVOKE, "send", [["send", LOG, 42], ["send", LOG, 43], ["send", 7, 44]]),
            op(
                1.5,
                0,
                ops_.OK,
                "send",
                [["send", LOG, [0, 42]], ["send", LOG, [1, 43]], ["send", 7, [9, 44]]],
            ),
            op(7, 4, ops_.INVOKE, "work", None),
            op(9.5, 4, ops_.OK, "work", {"polled": 1}),
            op(20, 0, ops_.INVOKE, "send", [["send", LOG, 45]]),
            op(20.2, 0, ops_.OK, "send", [["send", LOG, [2, 45]]]),
        ],
    )
    folder = recorded(runs, NAME, ops, workload="pipeline", partitions_per_topic=4)
    (folder / "pipeline").mkdir()
    described = {"schema": 1, "input": [f"{NAME}-0", f"{NAME}-1"], "output": [f"{NAME}-2"]}
    (folder / "pipeline" / "pipeline.json").write_bytes(orjson.dumps(described))
    judged(folder)
    found = [
        AnomalyFound("missing-output", "A record lacks an output.", 1, True, True, (MISSING,)),
        AnomalyFound("offset-gap", "Reading went on past where it should.", 1, True, True, (GAP,)),
    ]
    write_json(folder / "results.json", to_data(Result("invalid", anomalies=tuple(found))))
    return folder

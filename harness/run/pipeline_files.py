"""Writes files about a pipeline into the run folder: its description, and the records that its writers sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from harness.clients.app.spec import filled
from harness.history_writer import write_json
from harness.model import op_json
from harness.model.op import FAIL, INFO, INVOKE, OK
from harness.pipeline_app.partition_numbers import place_of
from harness.plan.test_plan import TestPlan


def describe(folder: Path, plan: TestPlan) -> None:
    """Writes pipeline/pipeline.json, the description of the pipeline that the checks need. Called before the load."""
    (folder / "pipeline").mkdir(exist_ok=True)
    names = [f"{plan.run}-{number}" for number in range(plan.input_topics + 1)]
    description: dict[str, Any] = {
        "schema": 1,
        "mode": plan.pipeline_mode if plan.app is None else plan.app.promise,
        "transform": plan.transform if plan.app is None else "identity",
        "input": names[:-1],
        "output": names[-1:],
        "group": f"{plan.run}-group" if plan.app is None else filled(plan.app.group, {"run": plan.run}),
        "mistake": plan.pipeline_mistake or None,
        "client": ",".join(plan.client),
        "instances": plan.instances,
        "readers": plan.concurrency,
        "partitions": plan.partitions,
    }
    if plan.app is not None:
        state = {} if plan.app.state is None else {"state": plan.app.state.equals.name}
        description["application"] = {"outputs": plan.app.output.count, **state}
    write_json(folder / "pipeline" / "pipeline.json", description)


def write_sent(folder: Path, plan: TestPlan) -> None:
    """Writes pipeline/sent-<process>.jsonl: the records that a writer sent, each with the outcome that it reported.

    If the writer reported none, the outcome is `info`.
    """
    open_: dict[Any, Any] = {}
    files: dict[Any, Any] = {}
    run, inputs = plan.run, plan.input_topics

    def write(op: Any, outcome: str) -> None:
        outcomes = op.extra.get("outcomes") or [outcome] * len(op.value)
        if op.process not in files:
            files[op.process] = (folder / "pipeline" / f"sent-{op.process}.part").open("wb")
        for (_, number, value), judged in zip(op.value, outcomes, strict=True):
            offset, id = value if isinstance(value, list) else (None, value)
            topic, partition = place_of(number, inputs)
            line = {
                "id": id,
                "key": id % op.extra["keys"],
                "topic": f"{run}-{topic}",
                "partition": partition,
                "offset": offset,
                "outcome": judged,
                "time_ns": op.time_ns,
            }
            files[op.process].write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    try:
        for path in sorted((folder / "history").glob("*.jsonl")):
            with path.open("rb") as lines:
                next(lines, None)
                for line in lines:
                    if b'"send"' not in line or not line.endswith(b"\n"):
                        continue
                    op = op_json.decode(line, str(path))
                    if op.f != "send":
                        continue
                    if op.type == INVOKE:
                        open_[op.process] = op
                    elif open_.pop(op.process, None) is not None:
                        write(op, {OK: "ok", FAIL: "fail"}.get(op.type, INFO))
        for op in open_.values():
            write(op, INFO)
    finally:
        for file in files.values():
            file.close()
    for process in files:  # renamed together at the end, so that a killed process leaves few incomplete sets
        part = folder / "pipeline" / f"sent-{process}.part"
        part.rename(part.with_suffix(".jsonl"))

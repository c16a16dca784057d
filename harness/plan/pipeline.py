"""A plan's pipeline: its options, what goes together, and what its run folder says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from harness.clients.table import PIPELINES
from harness.model import codec
from harness.model.op import FAIL, INFO, INVOKE, OK
from harness.pipeline_app.mistakes import MISTAKES
from harness.pipeline_app.partition_numbers import place_of
from harness.pipeline_app.ports import Options as InstanceOptions
from harness.store import write_json
from workloads import pipeline

if TYPE_CHECKING:
    from harness.plan.test_plan import TestPlan

FLUSH_S: Final = 0.25
FILES_FLUSH_S: Final = 30.0
KEYS_PER_PARTITION: Final = 100  # whose counts fit a commit's metadata (offset.metadata.max.bytes, 4096)
# Sessions of the new group protocol are the brokers' (KIP-848); as short as the others'.
CONSUMER_SESSION: Final[Mapping[str, str]] = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}


def settled(data: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Plan fields that follow from the pipeline's own. Raises ValueError where something else was asked."""
    given = {**defaults, **data}
    slots = int(given["writers"]) + int(given["instances"])
    follows: dict[str, Any] = {
        "concurrency": slots,
        "partitions_per_topic": int(given["partitions"]),
        "sub_via": ("subscribe",),
    }
    for name, value in follows.items():
        # A run's plan names everything; what is given beside it must not be held against it.
        asked = value if "schema" in data else data.get(name, value)
        if (tuple(asked) if name == "sub_via" else int(asked)) != value:
            raise ValueError(
                f"--{name.replace('_', '-')}: with --workload pipeline it follows from --writers, "
                "--instances and --partitions; leave it out"
            )
    out = {**data, **follows}
    own = str(given["cluster"]) in ("local", "docker") and not given.get("cluster_name")
    if given["assignor"] == "consumer" and own:
        out["broker_config"] = {**CONSUMER_SESSION, **(data.get("broker_config") or {})}
    return out


def rule(plan: TestPlan) -> None:
    """What goes with the pipeline, and what does not. Raises ValueError."""
    mistake = plan.pipeline_mistake
    if plan.workload != "pipeline":
        if mistake:
            raise ValueError(f"--pipeline-mistake {mistake} goes with --workload pipeline")
        return
    if not set(plan.client) <= PIPELINES.keys():
        takes = " or ".join(sorted(PIPELINES))
        raise ValueError(f"--client {','.join(plan.client)}: --workload pipeline takes {takes}")
    if plan.cluster == "sim":
        raise ValueError("--cluster sim has no groups: --workload pipeline takes brokers")
    if plan.txn:
        raise ValueError("--txn does not go with --workload pipeline: see --pipeline-mode")
    if mistake and mistake not in MISTAKES:
        raise ValueError(f"--pipeline-mistake {mistake}: one of {', '.join(MISTAKES)}")
    if mistake and plan.pipeline_mode not in ("exactly-once", "files"):
        raise ValueError(
            f"--pipeline-mistake {mistake} goes with --pipeline-mode exactly-once or files: "
            f"{plan.pipeline_mode} promises less anyway"
        )
    if plan.assignor == "consumer" and _older(plan.kafka_version, (4, 0)):
        raise ValueError(f"--assignor consumer needs Kafka 4.0 or later (it is {plan.kafka_version})")
    if "java" in plan.client:
        # 2.5 has groupMetadata (KIP-447); 4.0 waits for the listener, under KIP-848, too.
        needed = (4, 0) if plan.assignor == "consumer" else (2, 5)
        version = plan.client_versions.get("java")
        if version and _older(version, needed):
            raise ValueError(
                f"--client-version java={version}: --workload pipeline needs {needed[0]}.{needed[1]} or later"
                + (" with --assignor consumer" if plan.assignor == "consumer" else "")
            )
    partitions = plan.partition_count
    per_partition = -(-plan.key_count // partitions)
    if plan.transform == "aggregate" and per_partition > KEYS_PER_PARTITION:
        raise ValueError(
            f"--key-count {plan.key_count}: --transform aggregate keeps its counts with the offsets, which "
            f"have room for {KEYS_PER_PARTITION} keys in each of {partitions} partitions"
        )


def _older(version: str, than: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return found is not None and (int(found[1]), int(found[2] or than[1])) < than


def options(plan: TestPlan) -> pipeline.Options:
    """The workload's options of a plan."""
    flush_s = plan.flush_s or (FILES_FLUSH_S if plan.pipeline_mode == "files" else FLUSH_S)
    return pipeline.Options(
        writers=plan.writers,
        instances=plan.instances,
        keys=plan.key_count,
        inputs=plan.input_topics,
        partitions=plan.partitions,
        batch=plan.send_batch,
        churn_s=plan.churn_interval_s,
        final_s=plan.final_time_limit_s,
        instance=InstanceOptions(
            mode=plan.pipeline_mode,
            transform=plan.transform,
            mistake=plan.pipeline_mistake or None,
            flush_s=flush_s,
            abort_p=plan.abort_p,
            seed=plan.seed,
        ),
        assignor=plan.assignor,
        static_members=plan.static_members,
        one_poll=plan.one_poll,
        grows=any(fault.startswith("add-partitions") for fault in (*plan.nemesis, *plan.scheduled)),
        group_existed=plan.auto_offset_reset == "latest",
    )


def describe(folder: Path, plan: TestPlan) -> None:
    """Write pipeline/pipeline.json, before the load: what the checks must know."""
    (folder / "pipeline").mkdir(exist_ok=True)
    names = [f"{plan.run}-{number}" for number in range(plan.input_topics + 1)]
    told = {
        "schema": 1,
        "mode": plan.pipeline_mode,
        "transform": plan.transform,
        "input": names[:-1],
        "output": names[-1:],
        "group": f"{plan.run}-group",
        "mistake": plan.pipeline_mistake or None,
        "client": ",".join(plan.client),
        "instances": plan.instances,
        "readers": plan.concurrency,
        "partitions": plan.partitions,
    }
    write_json(folder / "pipeline" / "pipeline.json", told)


def write_sent(folder: Path, plan: TestPlan) -> None:
    """Write pipeline/sent-<process>.jsonl: what the writers themselves said of each record. A send that never
    completed is `info`."""
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
                    op = codec.decode(line, str(path))
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
    for process in files:  # all or none, as far as a kill lets it
        part = folder / "pipeline" / f"sent-{process}.part"
        part.rename(part.with_suffix(".jsonl"))

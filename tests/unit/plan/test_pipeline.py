"""The pipeline's part of a plan: derived fields, conflicts, and the description in the run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.clients.pipeline.events import Clock
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, BadInput
from harness.model.op import Op
from harness.plan import pipeline
from harness.plan.make_plan import make
from harness.plan.plan_file import dump, load, load_data
from harness.plan.test_plan import TestPlan
from harness.run import pipeline_files


def plan(**options: object) -> TestPlan:
    return make({"workload": "pipeline", **options})


def test_slots_and_partitions_follow(tmp_path: Path) -> None:
    made = plan(writers=3, instances=5, partitions=6)
    assert (made.concurrency, made.partitions_per_topic, made.sub_via) == (8, 6, ("subscribe",))
    (tmp_path / "plan.yaml").write_text(dump(made))
    assert load(tmp_path / "plan.yaml").concurrency == 8
    again = make({**load_data(tmp_path / "plan.yaml").data, "instances": 2})
    assert again.concurrency == 5
    assert "group.consumer.session.timeout.ms" in plan(assignor="consumer").broker_config
    assert pipeline.workload_options(plan(pipeline_mode="files"))["instance"].flush_s == 30.0
    assert pipeline.workload_options(plan(pipeline_mode="files", flush_s=2))["instance"].flush_s == 2.0
    assert pipeline.workload_options(plan(flush_s=0))["instance"].flush_s == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"concurrency": 7}, "--concurrency"),
        ({"partitions_per_topic": 5}, "--partitions-per-topic"),
        ({"pipeline_mistake": "none-such"}, "choose from\n  buffer-dropped-on-revoke"),
        ({"pipeline_mistake": "commit-buffered", "pipeline_mode": "auto-commit"}, "does not promise"),
        ({"client": "aiokafka"}, "supports confluent or java"),
        ({"client": "java", "client_version": "2.4.1"}, "needs 2.5 or later"),
        ({"client": "java", "client_version": "3.9.1", "assignor": "consumer"}, "needs 4.0 or later with"),
        ({"cluster": "sim"}, "has no consumer groups"),
        ({"txn": True}, "--pipeline-mode"),
        ({"client": "exec:./x", "transform": "aggregate"}, "--transform aggregate cannot .* metadata"),
        ({"client": "confluent,exec:./x", "static_members": True}, "--static-members cannot .* exec:./x"),
        ({"client": "exec:./x", "pipeline_mistake": "zombie-not-fenced"}, "zombie-not-fenced cannot"),
        ({"assignor": "consumer", "kafka_version": "3.9"}, "needs Kafka 4.0"),
        ({"transform": "aggregate", "key_count": 5000}, "--key-count 5000"),
        ({"workload": "queue", "pipeline_mistake": "commit-buffered"}, "requires --workload pipeline"),
    ],
)
def test_what_does_not_go_together(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan(**given)


def test_outcomes_reported_by_the_writers(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "pipeline").mkdir()
    sends = [["send", 1, 10], ["send", 2, 11]]
    extra = {"keys": 4}
    ops = [
        Op(0, 1, 0, "invoke", "send", sends, None, extra),
        Op(1, 2, 0, "ok", "send", [["send", 1, [7, 10]], ["send", 2, [8, 11]]], None, extra),
        Op(2, 3, 0, "invoke", "send", sends, None, extra),
        Op(3, 4, 0, "info", "send", sends, "report: lost", {**extra, "outcomes": ["fail", "info"]}),
        Op(4, 5, 5, "invoke", "send", sends, None, extra),
    ]
    lines = [op_json.header("r", 0, 0, 0), *map(op_json.encode, ops), b'{"index":5,"f":"send"']
    (tmp_path / "history" / "00000.jsonl").write_bytes(b"".join(lines))
    pipeline_files.write_sent(tmp_path, plan(partitions=2, input_topics=2).model_copy(update={"run": "r"}))

    def written(process: int) -> list[tuple[object, ...]]:
        text = (tmp_path / "pipeline" / f"sent-{process}.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        return [(row["id"], row["topic"], row["partition"], row["offset"], row["outcome"]) for row in rows]

    assert written(0) == [
        (10, "r-1", 0, 7, "ok"),
        (11, "r-0", 1, 8, "ok"),
        (10, "r-1", 0, None, "fail"),
        (11, "r-0", 1, None, "info"),
    ]
    assert [row[-1] for row in written(5)] == ["info", "info"]


def test_the_clock_is_the_history_s(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="the start of the run"):
        Clock.of(tmp_path)
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "00000.jsonl").write_bytes(op_json.header("r", 0, 11, 22))
    assert Clock.of(tmp_path) == Clock(22, 11)

"""`harness inspect` on a run folder and on folders of data, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from harness.cli.app import invoke
from harness.clients import payload
from harness.model import op_json
from harness.model.op import Op
from harness.plan import make_plan, plan_file
from tests.unit.checker.disk.real import VERSIONS, unpacked

RUN = "r"
NODES = ("n1", "n2", "n3")


def segment(key: int, *values: int) -> bytes:
    """A batch for each value, from offset 0 on."""
    found = b""
    for offset, value in enumerate(values):
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
        builder.append(0, 1000 + offset, None, payload.encode(RUN, key, value, 7), [])
        batch = bytes(builder.build())
        found += offset.to_bytes(8, "big") + batch[8:12] + bytes(4) + batch[16:]  # of leader epoch 0
    return found


def place(run: Path, node: str, topic: str, content: bytes) -> Path:
    folder = run / "data" / node / topic
    folder.mkdir(parents=True)
    log = folder / f"{0:020d}.log"
    log.write_bytes(content)
    log.with_suffix(".index").touch()
    log.with_suffix(".timeindex").touch()
    return log


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Key 3, in partition 1 of topic r-1: 1, 2 and 4 are there, n3 also holds 3, which was cut off."""
    folder = tmp_path / "runs" / RUN
    (folder / "history").mkdir(parents=True)
    plan = make_plan.make({"run": RUN, "partitions_per_topic": 2, "seed": 1})
    (folder / "plan.yaml").write_text(plan_file.dump(plan))
    ops = []

    def happened(f: str, invoked: object, completed: object) -> None:
        at = len(ops)
        ops.append(Op(at, at * 1000, 0, "invoke", f, invoked))
        ops.append(Op(at + 1, at * 1000 + 500, 0, "ok", f, completed))

    for offset, value in enumerate((1, 2, 3)):
        happened("send", [["send", 3, value]], [["send", 3, [offset, value]]])
    happened("send", [["send", 3, 4]], [["send", 3, [2, 4]]])
    happened("send", [["send", 5, 1]], [["send", 5, [0, 1]]])
    happened("poll", [["poll"]], [["poll", [[3, [[0, 1], [2, 4]]]]]])
    lines = b"".join(op_json.encode(op) for op in ops)
    (folder / "history" / "00000.jsonl").write_bytes(op_json.header(RUN, 0, 0, 0) + lines)
    for node in NODES[:2]:
        place(folder, node, "r-1-1", segment(3, 1, 2, 4))
    place(folder, "n3", "r-1-1", segment(3, 1, 2))
    log = place(folder, "n3", f"r-1-1.{'0' * 32}-delete", segment(3, 1, 2, 3))
    assert log.exists()
    for node in NODES:
        (folder / "data" / node / "replication-offset-checkpoint").write_text("0\n1\nr-1 1 1\n")
    return folder


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(["inspect", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inspected(capsys, str(run), "--json")
    report = json.loads(out)
    assert code == 1 and report["judged"] and report["missing_keys"] == [5]
    (partition,) = report["partitions"]
    assert (partition["topic"], partition["partition"], partition["same"]) == ("r-1", 1, True)
    assert partition["high_watermark"] == 3  # somebody read offset 2
    assert partition["behind"] == {"n3": 2}
    found = {(one["value"], one["kind"]): one for one in report["findings"]}
    assert set(found) == {(2, "lost"), (3, "lost")}
    assert found[2, "lost"]["cause"] == "on-disk-but-not-served"
    assert found[3, "lost"]["cause"] == "written-and-truncated"
    assert found[3, "lost"]["shown"].startswith("n3 has it at offset 2, leader epoch 0: r-1-1.0000")


def test_a_run_in_words(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inspected(capsys, RUN, "--runs", str(run.parent), "--topic", "r-1")
    assert code == 1
    assert "partitions with identical replicas up to the high watermark: 1 of 1" in out
    assert "  n3: offsets 0 to 2; 2 records in 2 batches in 1 segments; leader epochs 0 from 0" in out
    assert "its log ends at offset 2, below the high watermark" in out
    assert "lost: 2 records (acknowledged, but never read)" in out
    assert "    key 3, value 2 at offset 1, op 3: at offset 1, leader epoch 0" in out


def test_replicas_that_differ(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run / "data" / "n2" / "r-1-1" / f"{0:020d}.log"
    log.write_bytes(segment(3, 1, 9, 4))
    code, out, _ = inspected(capsys, str(run))
    assert code == 1
    assert "n2 differs" not in out and "differs from n1 at offset 1, below the high watermark:" in out


def test_folders_of_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = unpacked(VERSIONS[0], tmp_path / "data")
    code, out, _ = inspected(capsys, str(data))
    assert code == 0 and "4 partitions on n1, n2, n3" in out and "causes of missing records cannot be determined" in out
    code, out, _ = inspected(capsys, str(data / "n2"), "--topic", "txn")
    assert code == 0 and "4 transactions aborted, 1 open" in out


def test_what_cannot_be_inspected(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = inspected(capsys, str(run), "--topic", "nowhere")
    assert code == 254 and "the existing topics are r-1" in err
    (run / "data").rename(tmp_path / "gone")
    code, _, err = inspected(capsys, str(run))
    assert code == 254 and "run it again with --keep-data" in err
    (tmp_path / "empty").mkdir()
    code, _, err = inspected(capsys, str(tmp_path / "empty"))
    assert code == 254 and "no data of Kafka brokers" in err
    code, _, err = inspected(capsys, "no-such-run", "--runs", str(run.parent))
    assert code == 254 and "Traceback" not in err

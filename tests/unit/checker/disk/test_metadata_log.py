"""What the metadata check says about copies of a real run's metadata logs, each with a planted fault, or with none."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.disk.metadata import reported
from checker.disk.metadata import witnesses as w
from checker.disk.metadata.image import Image
from checker.disk.metadata.replay import Replayed
from harness.protocol import metadata_schemas as types
from harness.protocol.metadata_records import MetadataRecord
from harness.protocol.record_batch import whole_batches
from tests.unit.checker.disk.metadata_copy import NODES, Copy, Edit, copied

STRANGER = 9


@pytest.fixture
def run(tmp_path: Path) -> Copy:
    return copied(tmp_path)


def ints(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def replacing(kind: int, change: Callable[[Any], tuple[bytes, bytes] | None]) -> Edit:
    """Returns an edit that replaces bytes in records of a type, where `change` of the fields returns (old, new)."""

    def edit(record: MetadataRecord, value: bytes) -> bytes:
        pair = change(record.fields) if record.type == kind and record.fields is not None else None
        return value if pair is None else value.replace(*pair, 1)

    return edit


def in_isr(fields: Any) -> tuple[bytes, bytes] | None:
    isr = fields["isr"]
    return (ints(*isr), ints(*isr[:-1], STRANGER)) if isr else None


def other_leader(fields: Any) -> tuple[bytes, bytes] | None:
    """Names a leader that is not in the new ISR."""
    leader, isr = fields["leader"], fields["isr"]
    outside = ({1, 2, 3} - set(isr or ())).pop() if isr and len(isr) < 3 else 0
    return (b"\x01\x04" + ints(leader), b"\x01\x04" + ints(outside)) if outside and leader > 0 else None


def without_three(fields: Any) -> tuple[bytes, bytes] | None:
    """Creates a partition whose ISR does not contain broker 3, which later becomes its leader in a clean election."""
    replicas = fields["replicas"]
    if fields["leader"] != 2 or fields["isr"] != replicas:
        return None
    isr = tuple(2 if one == 3 else one for one in replicas)
    return ints(*replicas) + b"\x04" + ints(*replicas), ints(*replicas) + b"\x04" + ints(*isr)


def next_epoch(fields: Any) -> tuple[bytes, bytes]:
    """Changes the leader epoch of a partition in a snapshot."""
    leader, epoch = fields["leader"], fields["leader_epoch"]
    return ints(leader, epoch), ints(leader, epoch + 1)


# --- a healthy run ------------------------------------------------------------------------------------


def test_a_healthy_run_is_silent_and_there_was_something_to_judge(run: Copy) -> None:
    found, reasons, figures = run.judged()
    assert (found, reasons) == ([], [])
    assert figures["servers"] == 3 and figures["compared"] == figures["committed"] == 148
    assert figures["epochs"] == 2 and figures["leader_changes"] == 2
    assert figures["snapshots"] == figures["snapshots_compared"] == 5
    assert figures["elections"] == 34 and figures["partition_changes"] == 78
    assert figures["checkpoint_epochs"] == 53 and figures["metadata_answers"] == 34
    assert figures["not_decoded"] == {}


# --- planted faults -----------------------------------------------------------------------------------


def test_a_flipped_bit_in_a_committed_record_of_one_server(run: Copy) -> None:
    content = bytearray(run.log("n2").read_bytes())
    place = list(whole_batches(content))[10]
    content[place.stop - 3] ^= 4
    run.log("n2").write_bytes(content)
    (one,), _, _ = run.judged()
    assert one.name == w.DIVERGENCE and one.place == "n2" and "does not match" in one.seen
    assert "as on n1, n3" in one.expected and one.offset is not None and 0 < one.offset < 148


def test_another_committed_record_with_a_valid_checksum(run: Copy) -> None:
    offsets = run.edit(run.log("n3"), replacing(types.PARTITION_CHANGE, in_isr))
    (one,), _, _ = run.judged()
    assert (one.name, one.place) == (w.DIVERGENCE, "n3")
    assert one.offset is not None and one.offset <= offsets[0]


def test_a_committed_batch_that_one_server_does_not_have(run: Copy) -> None:
    content = run.log("n1").read_bytes()
    hole = list(whole_batches(content))[20]
    run.log("n1").write_bytes(content[: hole.start] + content[hole.stop :])
    (one,), _, _ = run.judged()
    assert (one.name, one.place, one.seen) == (w.DIVERGENCE, "n1", "no batch")


def test_two_leaders_in_an_epoch(run: Copy) -> None:
    run.say({"node": "n1", "leader": 1})
    (one,), _, _ = run.judged()
    assert (one.name, one.place) == (w.TWO_LEADERS, "epoch 3")
    assert "1 leads (DescribeQuorum on n1)" in one.seen and "3 leads (DescribeQuorum on n3)" in one.seen


def test_two_leaders_according_to_quorum_state(run: Copy) -> None:
    path = run.log("n2").with_name("quorum-state")
    path.write_text(path.read_text().replace('"leaderId":3', '"leaderId":2'))
    assert run.names() == {w.TWO_LEADERS}


def test_a_high_watermark_that_goes_back(run: Copy) -> None:
    run.say({"high_watermark": 147})
    (one,), _, _ = run.judged()
    assert one.name == w.WATERMARK and one.seen == "high watermark 147" and "at least 148" in one.expected


def test_a_high_watermark_that_a_leader_no_longer_knows(run: Copy) -> None:
    run.say({"high_watermark": -1})
    assert run.names() == {w.WATERMARK}


def test_committed_records_that_no_server_has(run: Copy) -> None:
    run.say({"high_watermark": 1000})
    (one,), _, _ = run.judged()
    assert one.name == w.LOST and one.offset == 1000


def test_a_snapshot_that_differs_from_the_log(run: Copy) -> None:
    path = run.snapshots("n1")[-1]
    run.edit(path, replacing(types.PARTITION, next_epoch))
    (one,), _, _ = run.judged()
    assert one.name == w.SNAPSHOT and path.name in one.place and one.offset == 105
    assert one.seen.startswith("partition ") and "leader_epoch" in one.seen


@pytest.mark.parametrize(("size", "seen"), [(0, "no end, in 0 bytes"), (-10, "bytes")])
def test_a_snapshot_that_is_not_complete(run: Copy, size: int, seen: str) -> None:
    """As after a power failure, if it was not synced (KAFKA-15312)."""
    path = run.snapshots("n1")[0]
    path.write_bytes(path.read_bytes()[:size])
    (one,), reasons, figures = run.judged()
    assert one.name == w.SNAPSHOT and path.name in one.place and seen in one.seen
    assert reasons == [] and figures["snapshots_compared"] == 4


def test_a_snapshot_without_a_topic(run: Copy) -> None:
    def forgotten(record: MetadataRecord, value: bytes) -> bytes:
        """Replaces the record of a topic with one of the same length that changes nothing."""
        size = len(value) - 7
        nothing = bytes([1, types.FEATURE_LEVEL, 0, size + 1]) + b"x" * size + b"\0\0\0"
        return nothing if record.type == types.TOPIC else value

    run.edit(run.snapshots("n3")[0], forgotten)
    found, _, _ = run.judged()
    assert {one.name for one in found} == {w.SNAPSHOT}
    assert any(one.seen.endswith("nothing") for one in found)


def test_a_member_of_an_isr_that_is_no_replica(run: Copy) -> None:
    offset = run.edit_everywhere(replacing(types.PARTITION_CHANGE, in_isr))
    found = [one for one in run.judged()[0] if one.name == w.ISR]
    assert found and found[0].offset == offset and str(STRANGER) in found[0].seen


def test_a_leader_outside_its_isr(run: Copy) -> None:
    offset = run.edit_everywhere(replacing(types.PARTITION_CHANGE, other_leader))
    one = next(one for one in run.judged()[0] if one.name == w.ELECTION)
    assert one.offset == offset and "one of the ISR" in one.expected


def test_a_clean_election_of_a_leader_that_was_not_in_the_isr(run: Copy) -> None:
    run.edit_everywhere(replacing(types.PARTITION, without_three))
    (one,) = [one for one in run.judged()[0] if one.name == w.ELECTION]
    assert "in a clean election" in one.seen


def test_a_leader_epoch_checkpoint_with_an_epoch_that_never_began(run: Copy) -> None:
    path = run.folder / "metadata" / "n3" / "leader-epochs.json"
    epochs = json.loads(path.read_text())
    name = next(name for name, (_, text) in epochs.items() if text.startswith("0\n1\n"))
    epochs[name][1] = "0\n2\n0 0\n7 5\n"
    path.write_text(json.dumps(epochs))
    (one,), _, _ = run.judged()
    assert one.name == w.EPOCHS and one.place == f"n3, leader-epoch-checkpoint of {name}"
    assert one.seen == "leader epoch 7 from offset 5"


def test_an_answer_to_metadata_with_another_leader(run: Copy) -> None:
    topic, partition, leader, epoch = next(answer for answer in run.answers() if "leaders" in answer)["leaders"][0]
    run.say({"time_ns": 1, "leaders": [[topic, partition, leader % 3 + 1, epoch]]})
    (one,), _, _ = run.judged()
    assert one.name == w.EPOCHS and one.place == f"an answer to Metadata about {topic}-{partition}"


def test_an_acknowledged_topic_that_is_missing(run: Copy) -> None:
    event = run.event
    event["topics"]["names"].append("one-more")
    (one,), _, _ = run.judged(event=event)
    assert (one.name, one.place, one.seen) == (w.ADMIN, "topic one-more", "no record creates it")


def test_a_topic_may_be_gone_only_if_the_run_deleted_topics() -> None:
    replayed = Replayed(Image())
    replayed.names["was"].add("its id")
    created = {"names": ["was", "never"], "partitions": 1, "config": {}}
    assert [one.place for one in reported.topics(replayed, created, deleted=True)] == ["topic never"]
    found = list(reported.topics(replayed, created, deleted=False))
    assert [one.seen for one in found] == ["it was deleted", "no record creates it"]


def test_an_acknowledged_topic_without_all_its_partitions(run: Copy) -> None:
    event = run.event
    event["topics"]["partitions"] = 5
    found, _, _ = run.judged(event=event)
    assert {one.name for one in found} == {w.ADMIN} and found[0].seen == "it has no partition 4"


def test_an_acknowledged_setting_that_no_record_sets(run: Copy) -> None:
    found, _, _ = run.judged(settings={"retention.ms": "1000"})
    assert [one.seen for one in found] == ["no record sets retention.ms=1000"]
    event = run.event
    event["topics"]["config"] = {"min.insync.replicas": "1"}
    assert run.names(event=event) == {w.ADMIN}


# --- what is allowed ----------------------------------------------------------------------------------


def test_uncommitted_ends_may_differ(run: Copy) -> None:
    """Without answers and snapshots beyond offset 71, the records after it are not known to be committed."""
    run.edit(run.log("n2"), replacing(types.PARTITION_CHANGE, in_isr))
    assert run.names() == {w.DIVERGENCE}
    run.known_committed(71)
    found, reasons, figures = run.judged()
    assert [one for one in found if one.name == w.DIVERGENCE] == [] and figures["committed"] == 71
    assert reasons == []


def test_a_copy_may_end_early(run: Copy) -> None:
    content = run.log("n1").read_bytes()
    run.log("n1").write_bytes(content[: list(whole_batches(content))[15].start])
    found, reasons, figures = run.judged()
    assert (found, reasons) == ([], [])
    assert figures["snapshots_compared"] == 5


@pytest.mark.parametrize("nodes", [("n1",), NODES])
def test_a_log_may_start_where_a_snapshot_ends(run: Copy, nodes: tuple[str, ...]) -> None:
    for node in nodes:
        log, snapshot = run.log(node), run.snapshots(node)[0]
        content, end = log.read_bytes(), int(snapshot.name[:20])
        first = next(
            place for place in whole_batches(content) if struct.unpack_from(">q", content, place.start)[0] >= end
        )
        log.unlink()
        log.with_name(f"{end:020d}.log").write_bytes(content[first.start :])
    found, reasons, figures = run.judged()
    assert (found, reasons) == ([], [])
    assert figures["snapshots_compared"] == (5 if len(nodes) == 1 else 2)
    assert figures["checkpoint_epochs"] > 0


def test_a_new_leader_may_know_a_lower_high_watermark(run: Copy) -> None:
    run.say({"node": "n1", "leader": 1, "epoch": 4, "high_watermark": -1})
    run.say({"node": "n1", "leader": 1, "epoch": 4, "high_watermark": 140})
    assert run.names() == set()


def test_records_of_an_unknown_version_are_counted_and_end_the_comparison(run: Copy) -> None:
    def newer(record: MetadataRecord, value: bytes) -> bytes:
        return value[:2] + b"\x09" + value[3:] if record.type == types.PARTITION_CHANGE else value

    for node in NODES:
        run.edit(run.log(node), newer)
    found, reasons, figures = run.judged()
    assert (found, reasons) == ([], [])
    assert figures["not_decoded"] == {"type 5 version 9": 1} and "checkpoint_epochs" not in figures


# --- missing evidence ---------------------------------------------------------------------------------


def test_a_server_without_a_log_is_said(run: Copy) -> None:
    shutil.rmtree(run.log("n2").parent)
    found, reasons, figures = run.judged()
    assert (found, figures["servers"]) == ([], 2) and reasons == ["there is no metadata log of n2"]


def test_without_answers_nothing_is_known_to_be_committed(run: Copy) -> None:
    (run.folder / "events" / "quorum.jsonl").unlink()
    found, reasons, _ = run.judged()
    assert found == [] and any("reported its high watermark" in reason for reason in reasons)


def test_logs_that_were_not_copied_are_said(run: Copy) -> None:
    _, reasons, _ = run.judged(event={"detail": "not copied", "nodes": ["n1"], "why": "no space"})
    assert reasons == ["the metadata logs of the servers were not copied: no space"]
    _, reasons, _ = run.judged(event={"detail": "watched"})
    assert reasons == ["the metadata logs of the servers were not copied: the run ended before"]


def test_answers_that_cannot_be_read_are_said(run: Copy) -> None:
    answers = run.folder / "events" / "quorum.jsonl"
    answers.write_text("{" + answers.read_text())
    found, (reason,), _ = run.judged()
    assert found == [] and "cannot be read" in reason

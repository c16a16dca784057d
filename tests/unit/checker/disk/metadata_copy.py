"""Copies of a real run's metadata logs, and changes to them.

The run killed the controller of three combined nodes once: two epochs, elections, snapshots, uncommitted ends.
"""

from __future__ import annotations

import json
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import google_crc32c

from checker.checks import metadata
from checker.disk.metadata.witnesses import Found
from harness.protocol import metadata_records
from harness.protocol.metadata_records import MetadataRecord
from harness.protocol.record_batch import parse, whole_batches
from harness.protocol.records import records

ARCHIVE: Final = Path(__file__).parents[3] / "fixtures" / "metadata" / "4.1.1.tar.gz"
NODES: Final = ("n1", "n2", "n3")
LOG: Final = "__cluster_metadata-0/00000000000000000000.log"
ANSWERS: Final = "events/quorum.jsonl"

Edit = Callable[[MetadataRecord, bytes], bytes]  # returns the new value of a record, with the same length


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the run in a folder of its own."""

    folder: Path

    @property
    def event(self) -> dict[str, Any]:
        lines = (self.folder / "events" / "harness.jsonl").read_text().splitlines()
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [event for event in events if event["event"] == "metadata-log"][-1]

    def log(self, node: str) -> Path:
        return self.folder / "metadata" / node / LOG

    def snapshots(self, node: str) -> list[Path]:
        return sorted(self.log(node).parent.glob("*.checkpoint"))

    def judged(
        self, event: Mapping[str, Any] | None = None, settings: Mapping[str, str] | None = None
    ) -> tuple[list[Found], list[str], dict[str, Any]]:
        return metadata.judge(self.folder, event or self.event, settings or {})

    def names(self, **more: Any) -> set[str]:
        return {found.name for found in self.judged(**more)[0]}

    # --- what servers said ------------------------------------------------------------------------------

    def answers(self) -> list[dict[str, Any]]:
        lines = (self.folder / ANSWERS).read_text().splitlines()
        return [json.loads(line) for line in lines]

    def say(self, *more: Mapping[str, Any]) -> None:
        """Appends answers, each given by the fields in which it differs from the last answer to DescribeQuorum."""
        last = [answer for answer in self.answers() if "epoch" in answer][-1]
        with (self.folder / ANSWERS).open("a") as file:
            for each in more:
                file.write(json.dumps(each if "leaders" in each else {**last, **each}) + "\n")

    def known_committed(self, below: int) -> None:
        """Removes everything that shows that records from the offset `below` on are committed."""
        kept = [answer for answer in self.answers() if answer.get("high_watermark", 0) <= below]
        (self.folder / ANSWERS).write_text("".join(json.dumps(answer) + "\n" for answer in kept))
        for node in NODES:
            for path in self.snapshots(node):
                if int(path.name[:20]) > below:
                    path.unlink()

    # --- records ----------------------------------------------------------------------------------------

    def edit(self, path: Path, edit: Edit, most: int = 1) -> list[int]:
        """Changes up to `most` records of a file, and returns their offsets. Checksums are those of the new content."""
        content = bytearray(path.read_bytes())
        edited = []
        for place, offset, value in values(bytes(content)):
            new = edit(metadata_records.decode(value), value)
            assert len(new) == len(value)
            if new != value and len(edited) < most:
                at = content.index(value, place.start, place.stop)
                content[at : at + len(value)] = new
                covered = bytes(content[place.start + 21 : place.stop])
                content[place.start + 17 : place.start + 21] = struct.pack(">I", google_crc32c.value(covered))
                edited.append(offset)
        assert edited, "nothing was changed"
        path.write_bytes(content)
        return edited

    def edit_everywhere(self, edit: Edit) -> int:
        """Changes the first record that `edit` changes in every copy of the log, and removes the snapshots."""
        offsets = {self.edit(self.log(node), edit)[0] for node in NODES}
        for node in NODES:
            for path in self.snapshots(node):
                path.unlink()
        (offset,) = offsets
        return offset


def values(content: bytes) -> Iterator[tuple[range, int, bytes]]:
    """Yields (bytes of the batch, offset, value) for each record of the metadata in a file."""
    for place in whole_batches(content):
        batch = parse(content[place.start : place.stop])
        assert batch is not None
        if not batch.control:
            for record in records(batch):
                assert record.value is not None
                yield place, record.offset, record.value


def copied(folder: Path) -> Copy:
    """Unpacks the run into a folder."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    return Copy(folder)

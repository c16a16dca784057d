"""What is on a server's disk of the run's logs, in figures. Run where the files are:

    python -m harness.cluster.local.log_folders DATA PREFIX

prints {"clean": whether the mark of a clean shutdown stands,
        "logs": {partition: {"segments": [[base offset, bytes], ...], "point": recovery point or null,
                             "epochs": lines of leader-epoch-checkpoint, "snapshots": of producers,
                             "indexes": [how many offset indexes, how many time indexes]}}}

Of a server with several folders for its logs (DATA, DATA2, ...), what is in all of them. A recovery point is
null where the checkpoint does not name the partition or cannot be read; Kafka then begins at 0. Checkpoints
are text: a version, a count, and a line `topic partition offset` each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.cluster.local.copy_data import folders
from harness.cluster.local.file_damage_kinds import EPOCHS, MARKER, POINT, logs


def points(text: str) -> dict[str, int]:
    """Partition -> offset of a checkpoint's text; empty when a line is none."""
    found = {}
    for line in text.splitlines()[2:]:
        parts = line.split()
        if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
            return {}
        found[f"{parts[0]}-{parts[1]}"] = int(parts[2])
    return found


def look(data: Path, prefix: str) -> dict[str, Any]:
    """See the module's text."""
    several = folders(data)
    found: dict[str, Any] = {}
    for folder in several:
        checkpoint = folder / POINT
        known = points(checkpoint.read_text(errors="replace")) if checkpoint.exists() else {}
        kept = [log for log in logs(folder, prefix) if not log.name.endswith(("-delete", "-stray"))]
        found |= {log.name: {**_log(log), "point": known.get(log.name)} for log in kept}
    return {"clean": all((folder / MARKER).exists() for folder in several), "logs": found}


def _log(log: Path) -> dict[str, Any]:
    segments = [[int(file.stem), file.stat().st_size] for file in sorted(log.glob("*.log"))]
    epochs = log / EPOCHS
    return {
        "segments": segments,
        "epochs": epochs.read_text(errors="replace").splitlines()[2:] if epochs.exists() else [],
        "snapshots": len(list(log.glob("*.snapshot"))),
        "indexes": [len(list(log.glob("*.index"))), len(list(log.glob("*.timeindex")))],
    }


def main(argv: Sequence[str]) -> int:
    """See the module's text."""
    data, prefix = argv
    try:
        found = look(Path(data), prefix)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(orjson.dumps(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Describes the logs of the run's topics on one server's disk. Run in the supervisor's mount namespace:

    python -m harness.cluster.local.log_folders DATA PREFIX

prints {"clean": whether the clean shutdown file exists,
        "logs": {partition: {"segments": [[base offset, bytes], ...], "point": recovery point or null,
                             "epochs": lines of leader-epoch-checkpoint, "snapshots": number of producer snapshots,
                             "indexes": [number of offset indexes, number of time indexes]}}}

PREFIX is the common prefix of the names of the run's topics. If a server has several log directories (DATA, DATA2,
...), all are read. The recovery point is null if the checkpoint does not list the partition or is malformed; Kafka then
starts recovery at 0. Checkpoints are text: a version, a count, and one line `topic partition offset` per partition.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.cluster.local.file_damage_kinds import EPOCHS, MARKER, POINT, folders, logs


def points(text: str) -> dict[str, int]:
    """Parses the text of a checkpoint: returns partition -> offset, or {} if a line is malformed."""
    found = {}
    for line in text.splitlines()[2:]:
        parts = line.split()
        if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
            return {}
        found[f"{parts[0]}-{parts[1]}"] = int(parts[2])
    return found


def look(data: Path, prefix: str) -> dict[str, Any]:
    """Returns a description of the logs of one server: see the module docstring for its format.

    data    the server's (first) log directory
    prefix  the common prefix of the names of the run's topics
    """
    several = folders(data)
    found: dict[str, Any] = {}
    for folder in several:
        checkpoint = folder / POINT
        recovery_points = points(checkpoint.read_text(errors="replace")) if checkpoint.exists() else {}
        present = [log for log in logs(folder, prefix) if not log.name.endswith(("-delete", "-stray"))]
        found |= {log.name: {**_log(log), "point": recovery_points.get(log.name)} for log in present}
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
    """Prints the description of one server's logs (see above). Exit code 1: an error, printed to standard error."""
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

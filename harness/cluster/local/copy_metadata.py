"""Copies servers' metadata logs (KRaft), and the leader epochs of their partitions.

Run in the supervisor's mount namespace, as `python -m harness.cluster.local.copy_metadata`:

    TARGET MOST_BYTES NODE=DATA ...   copy into TARGET/<node>/; prints {"bytes"} as JSON

    TARGET/<node>/__cluster_metadata-0/   segments, snapshots and quorum-state of the metadata log
    TARGET/<node>/leader-epochs.json      partition -> [topic id or "", text of its leader-epoch-checkpoint]

The servers should be paused during the copy.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson

from harness.cluster.local.file_damage_kinds import folders

LOG: Final = "__cluster_metadata-0"
EPOCHS: Final = "leader-epochs.json"
_COPIED: Final = ("*.log", "*.checkpoint", "quorum-state")
_CHECKPOINT: Final = "leader-epoch-checkpoint"
_TOPIC_ID: Final = "topic_id: "


def keep(target: Path, most: int, nodes: Mapping[str, Path]) -> int:
    """Copies the metadata logs of stopped or paused servers into `target`, and returns their total size in bytes.

    most   limit on the total size, in bytes
    nodes  node name -> data folder; a node without a metadata log gets an empty folder

    Raises OSError, also if the logs are larger than the limit.
    """
    files = {
        node: [file for pattern in _COPIED for file in sorted((data / LOG).glob(pattern))]
        for node, data in nodes.items()
    }
    size = sum(file.stat().st_size for found in files.values() for file in found)
    if size > most:
        raise OSError(f"the metadata logs have {size >> 20} MiB, and at most {most >> 20} MiB are copied")
    for node, found in files.items():
        copy = target / node / LOG
        copy.mkdir(parents=True, exist_ok=True)
        for file in found:
            shutil.copyfile(file, copy / file.name)
        (target / node / EPOCHS).write_bytes(orjson.dumps(leader_epochs(nodes[node])))
    return size


def leader_epochs(data: Path) -> dict[str, tuple[str, str]]:
    """Returns, for each partition in a server's log directories, (topic id, text of its leader-epoch-checkpoint)."""
    found = {}
    for folder in folders(data):
        for file in sorted(folder.glob(f"*/{_CHECKPOINT}")):
            name = file.parent.name
            if name != LOG and name.rpartition("-")[2].isdecimal():  # not one that is being deleted or moved
                found[name] = (_topic_id(file.parent / "partition.metadata"), file.read_text(errors="replace"))
    return found


def _topic_id(file: Path) -> str:
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    return next((line.removeprefix(_TOPIC_ID) for line in lines if line.startswith(_TOPIC_ID)), "")


def main(argv: Sequence[str]) -> int:
    """Copies the logs that the arguments name (see above). Exit code 1: an error, printed to standard error."""
    target, most, *rest = argv
    nodes = {name: Path(data) for name, _, data in (one.partition("=") for one in rest)}
    try:
        size = keep(Path(target), int(most), nodes)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(orjson.dumps({"bytes": size}).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A power cut soon after kafka-storage format: what is on the disk then, and whether the node starts. Needs root."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from local_kafka import Cluster, wait_for

DISK_BYTES = 1 << 30
ATTEMPTS = 3  # if anything on the machine calls sync() at the wrong moment, the attempt shows nothing


def command(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def attempt(kafka, folder):
    """Returns the sizes of the files after the power cut, and what the broker says, or None if it starts."""
    disk, after, at = folder / "disk", folder / "after", folder / "mounted"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    at.mkdir()
    command("mkfs.ext4", "-q", disk)
    command("mount", "-o", "loop,commit=1", disk, at)
    cluster = Cluster(kafka, config={"log.dirs": at / "data"})
    (broker,) = cluster.brokers
    try:
        broker.format()
        time.sleep(3)  # ext4 commits its journal every second here, and writes the contents of files after 30 s
        # What a power cut at this moment would leave: the blocks that have been written to the disk.
        command("cp", "--sparse=always", disk, after)
        command("umount", at)
        command("mount", "-o", "loop", after, at)
        sizes = {path.name: path.stat().st_size for path in sorted((at / "data").glob("*.*")) if path.is_file()}
        broker.launch()
        try:
            wait_for(broker.is_serving, 60, "the broker serves")
        except ChildProcessError as raised:
            reasons = [line for line in str(raised).splitlines() if "Exception" in line]
            return sizes, reasons[0] if reasons else str(raised)
        return sizes, None
    finally:
        cluster.__exit__()
        command("umount", at)


def main(kafka):
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix="finding-disk-"))
        try:
            sizes, reason = attempt(kafka, folder)
        finally:
            shutil.rmtree(folder)
        if reason:
            break
    return (
        "files that are complete, or absent, and a broker that starts",
        f"{sizes}, and a broker that {f'exits: {reason}' if reason else 'starts'}",
        reason is not None,
    )

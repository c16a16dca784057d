"""Starts and stops one broker. When it stops, it writes an archive of the classes that it loaded (class data sharing).

Run as `python -m harness.cluster.local.write_cds_archive VERSION`. The environment variable HARNESS_CLASSES_TO contains
the archive's path: see `harness.cluster.distribution.cds_archive`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from harness.cluster.distribution.cds_archive import TIMEOUT_S, TO, writing
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import HarnessError


def main(version: str) -> int:
    """Starts a cluster of one broker, and stops it. Returns 0, or the exit code of the error that occurred."""
    with tempfile.TemporaryDirectory(prefix="classes-") as folder:
        spec = ClusterSpec(nodes=1, kafka_version=version, work_dir=Path(folder) / "cluster")
        cluster = LoopbackCluster(spec, writing(os.environ[TO]))
        try:
            cluster.up(print)
            cluster.stop("n1", TIMEOUT_S / 2)
        except HarnessError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        finally:
            cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""`--keep-data`: a copy of what the brokers hold of a run's topics, for `harness inspect`.

runs/<id>/data/<node>/   checkpoints and meta.properties of the node, and a folder for each partition
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.model.capabilities import Cluster, Data, offers
from harness.model.errors_and_exit_codes import ClusterTrouble

FOLDER: Final = "data"
MOST_BYTES: Final = 2 << 30
log = logging.getLogger("harness")


def keep(run: Path, cluster: Cluster, prefix: str, say: Callable[[str], None]) -> None:
    """Copy the data into the run folder; say what was left out, or why there is nothing."""
    if not offers(cluster, Data):
        say("the data was not kept: this cluster does not offer it")
        return
    try:
        done = cluster.keep_data(str((run / FOLDER).absolute()), f"{prefix}-", MOST_BYTES)
    except (ClusterTrouble, OSError, ValueError) as error:
        log.warning("the data was not kept: %s", error)
        say(f"the data was not kept: {error}")
        return
    say(f"{done['bytes'] / (1 << 20):.1f} MiB of data kept: harness inspect {run}")
    if left_out := done["left_out"]:
        most = f"more than {MOST_BYTES >> 30} GiB together"
        say(f"{len(left_out)} partitions were left out ({most}): {', '.join(left_out[:5])}...")

"""Copies the brokers' data of a run's topics into the run folder (--keep-data), for `harness inspect`.

runs/<id>/data/<node>/   the node's checkpoints and meta.properties, and a folder for each partition
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
    """Copies the brokers' data of a run's topics into the run folder.

    Tells the user which partitions were not copied, or why nothing was copied.

    prefix  the names of the run's topics begin with this text and a hyphen
    """
    if not offers(cluster, Data):
        say("the brokers' data was not kept: this kind of cluster does not support --keep-data")
        return
    try:
        done = cluster.keep_data(str((run / FOLDER).absolute()), f"{prefix}-", MOST_BYTES)
    except (ClusterTrouble, OSError, ValueError) as error:
        log.warning("the brokers' data was not kept: %s", error)
        say(f"the brokers' data was not kept: {error}")
        return
    say(f"kept {done['bytes'] / (1 << 20):.1f} MiB of the brokers' data; to examine it: harness inspect {run}")
    if left_out := done["left_out"]:
        limit = f"the limit is {MOST_BYTES >> 30} GiB in total"
        say(f"{len(left_out)} partitions were not copied ({limit}): {', '.join(left_out[:5])}...")

"""Defines `Anomaly`, a row of the catalogue (`checker.anomalies.catalogue`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from checker.anomalies import counts_against_verdict
from checker.anomalies.counts_against_verdict import Rows
from checker.anomalies.guarantees import Guarantee
from checker.anomalies.pipeline_modes import Modes
from checker.anomalies.prose import Prose, fields
from checker.anomalies.what_stands import Filter, keep_all
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.share_bucket import ShareBucket
from harness.model.check_options import CheckOptions, Settings

# Where the anomaly occurs: in the records of a history, in cycles of its ops, in a pipeline's outputs or its
# instances' offsets, when a server starts, in data on disk, when a log is compared with the log model, in the
# deliveries of share groups, in what an upgrade must keep, in the metadata log, or after healing, in what stays stuck.
Kind: TypeAlias = Literal[
    "records", "cycle", "output", "offset", "start", "disk", "log", "share", "upgrade", "metadata", "stuck"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One row of the catalogue.

    A *witness* is one occurrence of the anomaly, as a row of named fields such as {key, value, op}. *Native rules* are
    the rules of this project, as opposed to those of Jepsen's checker.

    name              the name that Jepsen or Adya uses, if there is one
    summary           the definition in one sentence
    source            the source of the rule
    kind              the kind of data in which the anomaly occurs (see `Kind`)
    prose             describes a witness in sentences
    guarantee         when Kafka guarantees that the anomaly does not occur; None: never
    guarantee_of      returns the guarantee that the given witnesses violate; None: all violate `guarantee`
    modes             for anomalies of pipelines: the modes of a pipeline that rule the anomaly out
    bad               returns whether the witnesses that `find` returned count against the verdict
    jepsen_allows     returns whether Jepsen's list of allowed errors contains the anomaly
    find              returns the witnesses in a `Bucket`, as int64 columns (see checker.kernels.witness); None: a check
                      finds them in another way
    find_share        for anomalies of share groups: returns the witnesses in a `ShareBucket`
    if_lines_missing  keeps only the witnesses that are proven even if lines of the history are missing (native rules)
    worst_first       (the column that ranks witnesses by severity, whether larger values are worse)
    per_op            whether Jepsen reports at most one witness per op. If so, under Jepsen's rules `find` adds a
                      column `place`, and the witness with the lowest place is kept for each op
    native            whether the anomaly exists under native rules only
    """

    name: str
    summary: str
    source: str
    kind: Kind = "records"
    prose: Prose = fields
    guarantee: Guarantee | None = None
    guarantee_of: Callable[[Rows], Guarantee] | None = None
    modes: Modes | None = None
    bad: Callable[[Rows, CheckOptions], bool] = counts_against_verdict.always
    jepsen_allows: Callable[[CheckOptions], bool] = counts_against_verdict.jepsen_never_allows
    find: Callable[[Bucket], pa.Table] | None = None
    find_share: Callable[[ShareBucket], pa.Table] | None = None
    if_lines_missing: Filter = keep_all
    worst_first: tuple[str, bool] | None = None
    per_op: bool = False
    native: bool = False

    def promised(self, settings: Settings, rows: Rows = ()) -> bool | None:
        """Returns whether the settings rule the anomaly out; None if that depends on an unknown setting.

        `rows` are the witnesses that `find` returned, if any.
        """
        guarantee = self.guarantee_of(rows) if rows and self.guarantee_of else self.guarantee
        return False if guarantee is None else guarantee.holds(settings)

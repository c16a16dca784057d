"""What an anomaly is: a row of the catalogue, `checker.anomalies.catalogue`."""

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
from checker.anomalies.what_stands import Stands, everything
from checker.kernels.bucket_of_keys import Bucket
from harness.model.check_options import CheckOptions, Settings

# What it is an anomaly of: records of a history, cycles of its ops, a pipeline's outputs or its instances'
# offsets, servers' starts, data on disk, or the log beside its model.
Kind: TypeAlias = Literal["records", "cycle", "output", "offset", "start", "disk", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One row of the catalogue.

    name           Jepsen's or Adya's, where it has one
    summary        one sentence on what it means
    source         where the rule comes from
    kind           what it is an anomaly of
    prose          how a witness is told
    guarantee      the settings that promise otherwise; None: none do
    guarantee_of   witnesses -> the settings that promise otherwise of them; None: the same of all
    modes          the modes of a pipeline that promise otherwise
    bad            whether witnesses, as the kernel gives them, count against the verdict
    jepsen_allows  whether Jepsen's list lets it pass
    find           Bucket -> witnesses, int64 columns (see checker.kernels.witness); None: a check has its own way
    stands         which witnesses stand where lines of the history are missing (native rules)
    worst_first    the column that says which witnesses are the worst, and whether large is worse
    per_op         Jepsen shows at most one witness per op, so its list is cut to that when asked to be compatible:
                   `find` then says in a column `place` which of an op's comes first
    native         only under native rules
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
    stands: Stands = everything
    worst_first: tuple[str, bool] | None = None
    per_op: bool = False
    native: bool = False

    def promised(self, settings: Settings, rows: Rows = ()) -> bool | None:
        """Whether the settings forbid it; None when that hangs on a setting that is not known.

        rows  witnesses as the kernel gives them, where there are some
        """
        guarantee = self.guarantee_of(rows) if rows and self.guarantee_of else self.guarantee
        return False if guarantee is None else guarantee.holds(settings)

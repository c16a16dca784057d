"""What an anomaly is: a name, a sentence, a source, and a kernel over one bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from checker.kernels.bucket import Bucket


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One row of the analyses.

    name     Jepsen's or Adya's
    summary  one sentence on what it means
    source   where the rule comes from
    find     Bucket -> witnesses, int64 columns (see checker.kernels.witness)
    per_op   Jepsen shows at most one witness per op, so its list is cut to that when asked to be compatible
    native   only under native rules
    """

    name: str
    summary: str
    source: str
    find: Callable[[Bucket], pa.Table]
    per_op: bool = False
    native: bool = False

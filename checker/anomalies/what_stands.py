"""Decides which witnesses are still proven if lines of the history are missing (checker.kernels.missing_lines).

Each function returns the rows of the witnesses that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.missing_lines import may_lie_between

# (bucket, witnesses, original keys and values by their codes) -> the witnesses that are still proven
Filter: TypeAlias = Callable[[Bucket, pa.Table, Mapping[int, Any]], pa.Table]


def keep_all(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Keeps all witnesses, because the lines that are present prove the anomaly."""
    return rows


def keep_none(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Keeps no witness, because the anomaly is the absence of something that a missing line may contain."""
    return rows.slice(0, 0)


def keep_without_gap(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Keeps the witnesses without missing lines between their two ops.

    A missing line may explain the other witnesses.
    """
    ops = rows.column("ops").combine_chunks().flatten().to_numpy().reshape(-1, 2)
    return rows.filter(pa.array(~may_lie_between(bucket.small.meta, ops[:, 0], ops[:, 1])))

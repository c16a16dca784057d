"""Which witnesses stand where lines of the history are missing: see checker.kernels.missing_lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.missing_lines import may_lie_between

# (bucket, witnesses, original keys and values by their codes) -> those of the witnesses that stand.
Stands: TypeAlias = Callable[[Bucket, pa.Table, Mapping[int, Any]], pa.Table]


def everything(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """They rest on what is in the history."""
    return rows


def nothing(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """They rest on what is not in the history."""
    return rows.slice(0, 0)


def nothing_between(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Steps between two ops without a gap between them: what is missing there may explain the step."""
    ops = rows.column("ops").combine_chunks().flatten().to_numpy().reshape(-1, 2)
    return rows.filter(pa.array(~may_lie_between(bucket.small.meta, ops[:, 0], ops[:, 1])))

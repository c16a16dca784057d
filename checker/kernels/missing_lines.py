"""Lines of a history that are known to be missing: what is absent from the rest then proves nothing.

Indices that jump show it, and a history that breaks off in its last line. Nothing may follow from a record that
nobody polled, an op that nobody recorded, or a step that nothing explains; what stands in the lines that are
there stays true. Native rules only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from checker.tables.packing import Bools, Ints

# Of tables that were made before `missing` was recorded: what their doubts say then.
_JUMPED: Final = "so ops are missing"
_LAST: Final = 1 << 62


def gap(meta: Mapping[str, Any]) -> tuple[int, int] | None:
    """(index before the first lines that are missing, index after the last of them); None where none are.

    A history that breaks off has no gap between its lines.
    """
    if "missing" in meta:
        return None if meta["missing"] is None else tuple(meta["missing"])
    return (-1, _LAST) if any(_JUMPED in doubt for doubt in meta.get("doubts", ())) else None


def lines_missing(meta: Mapping[str, Any]) -> bool:
    """Whether lines of a history are known to be missing, between others or at its end."""
    return gap(meta) is not None or meta.get("truncated") is not None


def may_lie_between(meta: Mapping[str, Any], after: Ints, until: Ints) -> Bools:
    """Per row: lines may be missing between the ops with these ids."""
    place = gap(meta)
    if place is None:
        return np.zeros(len(after), np.bool_)
    result: Bools = (after < place[1]) & (until > place[0])
    return result

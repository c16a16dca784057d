"""Finds out whether lines of a history are missing. Native rules only.

Lines are missing if the indices of ops have gaps, or if the history is truncated in its last line. If so, the missing
lines may contain the poll of a record that seems never polled, an op that seems not to have taken place, or the
explanation of a step that seems unexplained. Nothing may then be concluded from what is absent. Conclusions from the
lines that are present remain valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from checker.tables.packing import Bools, Ints

# Tables made before `missing` was recorded have this text in their doubts.
_JUMPED: Final = "so ops are missing"
_LAST: Final = 1 << 62


def gap(meta: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns (index of the op before the first missing line, index of the op after the last missing line).

    Returns None if there is no gap between lines, even if the last line of the history is cut off.
    """
    if "missing" in meta:
        return None if meta["missing"] is None else tuple(meta["missing"])
    return (-1, _LAST) if any(_JUMPED in doubt for doubt in meta.get("doubts", ())) else None


def lines_missing(meta: Mapping[str, Any]) -> bool:
    """Returns whether lines of a history are missing, between its lines or at its end."""
    return gap(meta) is not None or meta.get("truncated") is not None


def may_lie_between(meta: Mapping[str, Any], after: Ints, until: Ints) -> Bools:
    """Returns, for each pair of op ids (`after[i]`, `until[i]`), whether lines may be missing between the two ops."""
    place = gap(meta)
    if place is None:
        return np.zeros(len(after), np.bool_)
    result: Bools = (after < place[1]) & (until > place[0])
    return result

"""The kinds of cycles, as a table of specs.

A cycle is named after its edges, as Elle does: data dependencies give the letter (Adya: G0 write cycles,
G1c circular information flow, G-single one anti-dependency, G2 several; Elle: G-nonadjacent, of which no
two follow each other), and -process or -realtime says that such an edge is needed to close it. In each
strongly connected component the specs are tried in this order, the most severe first, and what a found one
implies is not looked for: so whatever is found needs all the kinds of edges in its name.

Sources: Adya, Weak Consistency (1999), 3.3, 4.2 and 5.2; Kingsbury and Alvaro, Elle (VLDB 2020), 4.3. The
cycle-exists types: Adya's levels PL-1, PL-2 and PL-2.99, `strong-session-` with process order, `strong-`
with real-time order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from checker.cycles.dependency_edges import KINDS, PROCESS, REALTIME, RW, WR, WW

# How many rw edges a cycle has: none; just one; several of which none follow each other; several.
RwMode = Literal["none", "single", "nonadjacent", "several"]


def mask(kinds: Iterable[int]) -> int:
    """Kinds as bits."""
    return sum(1 << kind for kind in kinds)


@dataclass(frozen=True, slots=True)
class Spec:
    """One type of cycle: the kinds of edges beside rw, how many rw, what it implies, what it means."""

    name: str
    kinds: int
    rw: RwMode
    implies: tuple[str, ...]
    summary: str

    @property
    def needed(self) -> int:
        """The kinds, as bits, of which it has at least one edge each."""
        return self.kinds & (mask((PROCESS, REALTIME)) | (mask((WR,)) if self.name.startswith("G1c") else 0))


@dataclass(frozen=True, slots=True)
class Level:
    """A level of isolation that no cycle of these kinds of edges leaves standing."""

    name: str
    friendly: str
    kinds: int
    weaker: tuple[str, ...]
    subgraph: tuple[str, ...]


_DATA: Final = mask((WW, WR))
_BASE: Final = (
    Spec("G0", mask((WW,)), "none", ("G1c",), "writes of transactions are interleaved: a cycle of ww edges"),
    Spec("G1c", _DATA, "none", (), "information flows in a circle: a cycle of ww and wr edges"),
    Spec("G-single", _DATA, "single", ("G-nonadjacent",), "a cycle with just one rw edge (read skew)"),
    Spec(
        "G-nonadjacent",
        _DATA,
        "nonadjacent",
        ("G2-item",),
        "a cycle with several rw edges, none next to another",
    ),
    Spec("G2-item", _DATA, "several", (), "a cycle with several rw edges (write skew)"),
)


def _variant(spec: Spec, suffix: str, kind: int, implies: tuple[str, ...], what: str) -> Spec:
    return Spec(
        f"{spec.name}-{suffix}",
        spec.kinds | mask((kind,)),
        spec.rw,
        (*(f"{name}-{suffix}" for name in spec.implies), *implies),
        f"{spec.summary}, closed by {what}",
    )


SPECS: Final[tuple[Spec, ...]] = (
    *(Spec(s.name, s.kinds, s.rw, (*s.implies, f"{s.name}-process"), s.summary) for s in _BASE),
    *(_variant(s, "process", PROCESS, (f"{s.name}-realtime",), "the order within a process") for s in _BASE),
    *(_variant(s, "realtime", REALTIME, (), "real-time order") for s in _BASE),
)

_UNION_1: Final = ("union", "ww", "wwp")
_UNION_2: Final = (*_UNION_1, "wr", "wrp")
LEVELS: Final[tuple[Level, ...]] = (
    Level("PL-1", "read-uncommitted", mask((WW,)), (), _UNION_1),
    Level("PL-2", "read-committed", _DATA, ("PL-1",), _UNION_2),
    Level("PL-2.99", "repeatable-read", mask((WW, WR, RW)), ("PL-2",), (*_UNION_2, "rw")),
    Level(
        "strong-session-PL-1",
        "strong-session-read-uncommitted",
        mask((WW, PROCESS)),
        ("PL-1",),
        (*_UNION_1, "process"),
    ),
    Level(
        "strong-session-PL-2",
        "strong-session-read-committed",
        mask((WW, WR, PROCESS)),
        ("PL-2", "strong-session-PL-1"),
        (*_UNION_2, "process"),
    ),
    Level(
        "strong-session-serializable",
        "strong-session-serializable",
        mask((WW, WR, RW, PROCESS)),
        ("PL-2.99", "strong-session-PL-2"),
        (*_UNION_2, "rw", "rwp", "process"),
    ),
    Level(
        "strong-PL-1",
        "strong-read-uncommitted",
        mask((WW, REALTIME)),
        ("strong-session-PL-1",),
        (*_UNION_1, "realtime"),
    ),
    Level(
        "strong-PL-2",
        "strong-read-committed",
        mask((WW, WR, REALTIME)),
        ("strong-session-PL-2", "strong-PL-1"),
        (*_UNION_2, "realtime"),
    ),
    Level(
        "PL-SS",
        "strict-serializable",
        mask((WW, WR, RW, REALTIME)),
        ("strong-session-serializable", "strong-PL-2"),
        (*_UNION_2, "rw", "rwp", "realtime"),
    ),
)
EXISTS: Final = "-cycle-exists"


def _closure(direct: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    def all_of(name: str) -> frozenset[str]:
        return frozenset({name}).union(*(all_of(other) for other in direct[name]))

    return {name: all_of(name) for name in direct}


# Each type with all that it implies; each level with all that are at most as strong.
IMPLIED: Final = _closure({spec.name: spec.implies for spec in SPECS})
WEAKER: Final = _closure({level.name: level.weaker for level in LEVELS})


def name_of(kinds: Iterable[int]) -> str:
    """The type of a cycle whose steps are of these kinds, in order."""
    steps = list(kinds)
    anti = [kind == RW for kind in steps]
    adjacent = any(a and b for a, b in zip(anti, anti[1:] + anti[:1], strict=True))
    several = "G2-item" if adjacent else "G-nonadjacent"
    letter = several if sum(anti) > 1 else "G-single" if any(anti) else "G1c" if WR in steps else "G0"
    return letter + ("-realtime" if REALTIME in steps else "-process" if PROCESS in steps else "")


def kinds_of(names: Iterable[str]) -> int:
    """Names of kinds of edges as bits."""
    return mask(KINDS.index(name) for name in names)

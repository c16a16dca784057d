"""The types of cycles and the isolation levels that they violate, as tables.

A cycle is named after its edges, as in Elle. Its data dependencies determine the first part of the name: Adya's G0
(write cycle), G1c (circular information flow), G-single (one anti-dependency) and G2 (several), and Elle's
G-nonadjacent (several, no two of them adjacent). The suffix -process or -realtime means that the cycle contains an edge
of that kind. In each strongly connected component the types are tried in the order of the table, most severe first.
Types that are implied by a type already found are skipped.

Sources: Adya, Weak Consistency (1999), 3.3, 4.2 and 5.2; Kingsbury and Alvaro, Elle (VLDB 2020), 4.3. A type
PL-...-cycle-exists means that a cycle violates Adya's level PL-1, PL-2 or PL-2.99. If the name begins with
`strong-session-`, the cycle may also contain process edges; with `strong-`, also real-time edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from checker.cycles.dependency_edges import KINDS, PROCESS, REALTIME, RW, WR, WW

# The rw edges of a cycle: none; exactly one; several, no two of them adjacent; several.
RwMode = Literal["none", "single", "nonadjacent", "several"]


def mask(kinds: Iterable[int]) -> int:
    """Returns the kinds of edges as bits of one integer."""
    return sum(1 << kind for kind in kinds)


@dataclass(frozen=True, slots=True)
class Spec:
    """One type of cycle.

    kinds    the kinds of edges other than rw that the cycle may contain, as bits
    rw       the rw edges that the cycle contains: "none", "single" (one), "nonadjacent" (several, of which no two are
             adjacent) or "several"
    implies  the types that are not searched for once this type has been found
    """

    name: str
    kinds: int
    rw: RwMode
    implies: tuple[str, ...]
    summary: str

    @property
    def needed(self) -> int:
        """The kinds of edges that must each occur in the cycle at least once, as bits."""
        return self.kinds & (mask((PROCESS, REALTIME)) | (mask((WR,)) if self.name.startswith("G1c") else 0))


@dataclass(frozen=True, slots=True)
class Level:
    """An isolation level. Any cycle over edges of its `kinds` violates the level.

    friendly   the level's usual name
    weaker     the next weaker levels; if one of them is violated, this level is not reported
    subgraph   the names of the kinds of edges, as Jepsen's results list them
    """

    name: str
    friendly: str
    kinds: int
    weaker: tuple[str, ...]
    subgraph: tuple[str, ...]


_DATA: Final = mask((WW, WR))
_BASE: Final = (
    Spec("G0", mask((WW,)), "none", ("G1c",), "Write cycle: a cycle of ww edges"),
    Spec("G1c", _DATA, "none", (), "Circular information flow: a cycle of ww and wr edges"),
    Spec("G-single", _DATA, "single", ("G-nonadjacent",), "Read skew: a cycle with exactly one rw edge"),
    Spec("G-nonadjacent", _DATA, "nonadjacent", ("G2-item",), "A cycle with several rw edges, no two of them adjacent"),
    Spec("G2-item", _DATA, "several", (), "Write skew: a cycle with several rw edges"),
)


def _variant(spec: Spec, suffix: str, kind: int, implies: tuple[str, ...]) -> Spec:
    return Spec(
        f"{spec.name}-{suffix}",
        spec.kinds | mask((kind,)),
        spec.rw,
        (*(f"{name}-{suffix}" for name in spec.implies), *implies),
        f"{spec.summary}, and at least one {suffix} edge",
    )


SPECS: Final[tuple[Spec, ...]] = (
    *(Spec(s.name, s.kinds, s.rw, (*s.implies, f"{s.name}-process"), s.summary) for s in _BASE),
    *(_variant(s, "process", PROCESS, (f"{s.name}-realtime",)) for s in _BASE),
    *(_variant(s, "realtime", REALTIME, ()) for s in _BASE),
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


# Each type with all types that it implies; each level with all levels that are at most as strong.
IMPLIED: Final = _closure({spec.name: spec.implies for spec in SPECS})
WEAKER: Final = _closure({level.name: level.weaker for level in LEVELS})


def name_of(kinds: Iterable[int]) -> str:
    """Returns the name of a cycle's type, given the kinds of its steps in order."""
    steps = list(kinds)
    anti = [kind == RW for kind in steps]
    adjacent = any(a and b for a, b in zip(anti, anti[1:] + anti[:1], strict=True))
    several = "G2-item" if adjacent else "G-nonadjacent"
    letter = several if sum(anti) > 1 else "G-single" if any(anti) else "G1c" if WR in steps else "G0"
    return letter + ("-realtime" if REALTIME in steps else "-process" if PROCESS in steps else "")


def kinds_of(names: Iterable[str]) -> int:
    """Returns the kinds of edges with these names, as bits of one integer."""
    return mask(KINDS.index(name) for name in names)

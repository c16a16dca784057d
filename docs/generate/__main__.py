"""Generates the catalogues in docs/reference from the tables that the code itself uses.

`python -m docs.generate` (or `make docs`) writes a page for each row of PAGES. No anomaly, fault, option or version is
named in this package: a new row of a table becomes a new section or row of a page. A setting that has no wording yet
raises a KeyError, so that it gets one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.generate import anomalies, errors, faults, options, versions

FOLDER: Final = Path(__file__).parents[1] / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "anomalies": anomalies.page,
    "errors": errors.page,
    "faults": faults.page,
    "options": options.page,
    "versions": versions.page,
}


def main() -> None:
    """Writes every page."""
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page())


if __name__ == "__main__":
    main()

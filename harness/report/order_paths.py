"""Where order pages stand: runs/ID/orders/index.html and key-<key>.html."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final

NAME: Final = "orders"
PLAIN: Final = re.compile(r"-?[\w]{1,40}", re.ASCII)


def folder(run: Path) -> Path:
    """The folder of the pages."""
    return run / NAME


def index(run: Path) -> Path:
    """The page that lists the others."""
    return folder(run) / "index.html"


def file_name(key: Any) -> str:
    """The file of a key; one that is no name for a file gets a digest."""
    text = str(key)
    if PLAIN.fullmatch(text) and (type(key) is int or not re.fullmatch(r"-?\d+", text)):
        return f"key-{text}.html"
    return f"key--{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.html"


def page(run: Path, key: Any) -> Path:
    """The page of a key, which may not be there."""
    return folder(run) / file_name(key)


def pages(run: Path) -> list[Path]:
    """The pages that there are."""
    return sorted(folder(run).glob("key-*.html"))

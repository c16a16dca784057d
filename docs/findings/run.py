"""Runs the reproduction of a finding: python docs/findings/run.py NAME [KAFKA]

NAME is a folder next to this file whose `reproduce.py` has a function `main(kafka)`. KAFKA is a version of Kafka
(default: 4.4.0), or the folder `libs` of an unpacked release. The reproduction starts its own brokers.

Exit codes: 0 if the defect shows, 1 if it does not, 2 if the reproduction could not be carried out.
"""

import importlib.util
import sys
import traceback
from pathlib import Path

DEFAULT = "4.4.0"


def main(name, kafka=DEFAULT):
    spec = importlib.util.spec_from_file_location("reproduce", Path(__file__).parent / name / "reproduce.py")
    reproduction = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reproduction)
    expected, found, is_shown = reproduction.main(kafka)
    print(f"expected: {expected}\nfound:    {found}")
    return 0 if is_shown else 1


if __name__ == "__main__":
    try:
        code = main(*sys.argv[1:])
    except Exception:
        traceback.print_exc()
        code = 2
    sys.exit(code)

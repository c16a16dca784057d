"""The oracle for pipelines: what became of each input record, counted slowly and plainly from a run's files.

It was written from docs/pipeline.md and docs/pipeline-checks.md alone.

    case.py      what a run is drawn to be: mode, transform, settings, faults, lies
    run.py       a simulated run with those lies: its files, and which anomalies they are
    evidence.py  from the files to what happened, and what cannot be known
    promises.py  what a mode promises under which settings and faults
    compare.py   the checker's answer beside the oracle's
"""

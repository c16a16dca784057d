"""An oracle of another kind for the checker: what Kafka promises, said slowly and plainly.

It shares no code with the checker, and was written from Kafka's documentation and docs/reference/formats.md alone.
Where the two differ, one of them is wrong.

    case.py      what a run is drawn to be: settings, faults, lies
    log.py       replicated logs of keys, and what became of every record
    clients.py   processes: what they ask, and what they are answered
    run.py       a run: history, settings, and the truth
    evidence.py  from a recorded history to what anybody could know
    promises.py  what Kafka promises under which settings and faults
    compare.py   the checker's answer beside the oracle's
"""

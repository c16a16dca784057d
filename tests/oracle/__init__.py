"""An oracle for the checker: a slow and simple implementation of what Kafka guarantees.

It shares no code with the checker, and was written only from Kafka's documentation and docs/reference/formats.md.
Where the two differ, one of them is wrong.

    case.py      the random parameters of a run: settings, faults, lies
    log.py       replicated logs of keys, and the fate of every record
    clients.py   client processes: their requests and the responses
    run.py       a simulated run: history, settings, and the truth
    evidence.py  what can be concluded from a recorded history
    promises.py  what Kafka guarantees under which settings and faults
    compare.py   compares the checker's answer with the oracle's
"""

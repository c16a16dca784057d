"""The log-model workload: compares a log, step by step, with an executable model of Kafka's partition log.

What can go wrong, in a program of three actions:

    append producer=3 txn=true records=[["k1", "v1", 0]]      offsets 0 to 1
    abort producer=3
    read-all isolation=read_committed                         [[0, "k1", "v1"]]; the model: []

Under read_committed, a consumer must not see records of aborted transactions. The log under test returns such a record,
and the model does not. This is a divergence: "records of aborted transactions are read under read_committed".

The actions are drawn from a seed. Each is applied to the log under test (the simulated log with a bug, or a topic on
real brokers) and to the model. The outcomes and the visible states of both must be equal. In addition, there are
invariants that must always hold; they are checked without the model. A divergence is shrunk to a short program that
reproduces it.
"""

"""The experiment `client-matrix`: tests client libraries under faults, in several modes, on one persistent cluster."""

"""The experiment `client-matrix`: client programs under faults, in several modes, on one persistent cluster."""

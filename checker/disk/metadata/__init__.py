"""Judges KRaft's metadata log: the copies that the servers of a run had at its end, and what they said during it."""

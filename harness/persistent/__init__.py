"""Persistent clusters, server side: the keeper process that owns a cluster, its lifecycle, commands, cleanup."""

"""The server side of persistent clusters: the keeper process that owns a cluster, starting, stopping, and cleanup."""

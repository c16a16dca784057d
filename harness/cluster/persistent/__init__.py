"""The client side of persistent clusters, as runs use them, and the calls to their keeper process."""

"""The client side of persistent clusters: how runs use them, and how they call the keeper process of a cluster."""

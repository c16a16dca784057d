"""One adapter per client library, and the op logic written once above them."""

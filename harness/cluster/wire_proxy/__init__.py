"""A proxy that understands Kafka's frames: see `proxy`."""

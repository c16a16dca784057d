"""A proxy that understands Kafka's request and response frames: see `proxy`."""

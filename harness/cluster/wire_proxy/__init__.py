"""A proxy that understands Kafka's request and response frames: see `harness.cluster.wire_proxy.proxy`."""

"""What brokers are made of: jars, Java, versions, configuration, Kafka's own tools."""

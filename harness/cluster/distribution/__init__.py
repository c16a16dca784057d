"""What brokers run with: jars, Java, versions, configuration, Kafka's command-line tools."""

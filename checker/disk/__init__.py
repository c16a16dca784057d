"""What brokers left on disk: their files decoded, replicas compared, and causes of what is lost."""

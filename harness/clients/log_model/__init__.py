"""The log role: actions of the log model as requests to brokers."""

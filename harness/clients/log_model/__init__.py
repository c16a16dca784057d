"""The log role of a worker process: carries out actions of the log model as requests to brokers."""

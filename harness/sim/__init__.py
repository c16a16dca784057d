"""The simulated log: pure, with bugs that can be switched on."""

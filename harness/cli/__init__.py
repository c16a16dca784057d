"""The command-line interface, one file per group of commands."""

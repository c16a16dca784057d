"""The plan of a run: its fields, the rules between them, schedules, and the YAML file."""

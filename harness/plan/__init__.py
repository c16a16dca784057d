"""The plan of a run: its fields, what they may be combined to, schedules, and its YAML file."""

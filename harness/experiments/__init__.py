"""Named, repeatable experiments: a plan, what must and must not be seen, and how often it was."""

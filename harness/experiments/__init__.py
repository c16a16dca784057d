"""Named, repeatable experiments: plans, what their runs must and must not show, and how many of the runs did so."""

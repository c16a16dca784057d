"""Named, repeatable experiments: a plan, what its runs must and must not show, and how often they did."""

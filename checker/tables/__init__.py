"""From histories to tables, and reading them."""

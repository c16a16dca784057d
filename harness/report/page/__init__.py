"""The run page: one file of HTML that shows a stored run, opens offline, and asks nobody for anything."""

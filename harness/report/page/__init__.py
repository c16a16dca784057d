"""The run page: a single HTML file that shows a stored run, opens offline, and loads no other files."""

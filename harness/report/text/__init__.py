"""Text about a stored run: summaries, explanations of anomalies, and descriptions of witnesses."""

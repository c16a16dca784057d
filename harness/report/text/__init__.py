"""Sentences about a run: summaries, explanations, witnesses."""

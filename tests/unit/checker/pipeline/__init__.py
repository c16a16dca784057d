"""Tests of the checks of pipelines."""

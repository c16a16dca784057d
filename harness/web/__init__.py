"""Stored runs as web pages, on loopback or as a static site; from their files alone."""

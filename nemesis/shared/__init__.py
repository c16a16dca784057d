"""Helpers that several fault verbs share."""

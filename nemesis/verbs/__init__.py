"""The fault verbs, one module each or one per family."""

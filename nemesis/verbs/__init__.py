"""The fault verbs: one module for each verb, or for each family of verbs."""

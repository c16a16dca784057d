"""A simulated log with share groups (KIP-932): members, acknowledgements, changes of leader, and bugs."""

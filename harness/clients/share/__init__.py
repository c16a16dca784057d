"""The clients of the share workload: members of share groups (KIP-932)."""

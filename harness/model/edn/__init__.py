"""EDN, the notation of Jepsen's histories."""

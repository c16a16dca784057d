"""EDN, the data format of Jepsen's histories."""

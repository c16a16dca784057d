"""Results: reasons for `unknown`, files in the run folder, and Jepsen's format."""

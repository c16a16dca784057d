"""Results of checks: the reasons for the verdict `unknown`, the files in the run folder, and Jepsen's format."""

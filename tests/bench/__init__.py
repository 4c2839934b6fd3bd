"""The benchmark: Turnmill, the limit of the machine, and other engines that do the same job, in one run."""

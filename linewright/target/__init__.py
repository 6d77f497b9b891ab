"""Where a plan runs: the probe on this machine, its estimate of time, and signals while it runs."""

"""What is used of each budget, and whether a run may start; `control` stops runs of a budget that is used up."""

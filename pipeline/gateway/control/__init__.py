"""Commands to runs, over HTTP and of budgets that are used up: `docs/control.md`."""

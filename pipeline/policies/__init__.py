"""An operator's decisions as values: budgets, retention, webhooks, and the shares of tenants."""

"""An operator's policies as values: budgets, retention, webhooks, and the shares of tenants."""

"""What of the Helm chart is made from code: the schema of its values, the topics of Strimzi, Grafana's dashboards."""

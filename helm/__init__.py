"""The files of the Helm chart made from code: the schema of its values, Strimzi's topics, Grafana's dashboards."""

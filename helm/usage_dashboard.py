"""The dashboard of what agents use and do, by model, agent and tenant."""

from __future__ import annotations

from typing import Final

from helm.dashboards import IN, Json, Panel, Row, dashboard, quantiles, rate, total

USAGE: Final = f'{IN},model=~"$model",agent=~"$agent",tenant=~"$tenant"'
INTERRUPTED: Final = f'{USAGE},status="interrupted"'
CACHED: Final = f'{USAGE},token_type="cache_read"'
INPUT: Final = f'{USAGE},token_type="input"'


def usage() -> Json:
    """Return the dashboard of a fleet: tokens, cost, turns, errors, latency."""
    models = rate("turnmill_tokens_total", "model", f'{USAGE},token_type=~"input|output"')
    errors = total("turnmill_agent_turns_total", f'{USAGE},reason="error"', "model")
    turns = total("turnmill_agent_turns_total", USAGE, "model")
    return dashboard(
        "turnmill-usage",
        "Turnmill / Usage of the fleet",
        (
            Row(
                "In this time",
                (
                    Panel("Turns", "short", ((total("turnmill_agent_turns_total", USAGE), ""),), "stat", 4),
                    Panel(
                        "Tokens",
                        "short",
                        ((total("turnmill_tokens_total", f'{USAGE},token_type=~"input|output"'), ""),),
                        "stat",
                        4,
                    ),
                    Panel("Cost", "currencyUSD", ((total("turnmill_cost_usd_total", USAGE), ""),), "stat", 4),
                    Panel("Tool calls", "short", ((total("turnmill_tool_calls_total", USAGE), ""),), "stat", 4),
                    Panel(
                        "Interrupted",
                        "percentunit",
                        (
                            (
                                (
                                    f"{total('turnmill_agent_turns_total', INTERRUPTED)}"
                                    f" / {total('turnmill_agent_turns_total', USAGE)}"
                                ),
                                "",
                            ),
                        ),
                        "stat",
                        4,
                        "Part of the turns that broke off, for any reason.",
                    ),
                    Panel(
                        "From caches",
                        "percentunit",
                        (
                            (
                                (f"{total('turnmill_tokens_total', CACHED)} / {total('turnmill_tokens_total', INPUT)}"),
                                "",
                            ),
                        ),
                        "stat",
                        4,
                        "Part of the input tokens that providers read from their caches.",
                    ),
                ),
            ),
            Row(
                "Tokens and cost",
                (
                    Panel("Tokens a second, by model", "short", ((models, "{{model}}"),)),
                    Panel(
                        "Tokens a second, by type",
                        "short",
                        ((rate("turnmill_tokens_total", "token_type", USAGE), "{{token_type}}"),),
                    ),
                    Panel(
                        "Cost an hour, by model",
                        "currencyUSD",
                        ((f"3600 * {rate('turnmill_cost_usd_total', 'model', USAGE)}", "{{model}}"),),
                        help="As streams report it. For billing ask `turnmill usage`, which counts stored turns.",
                    ),
                    Panel(
                        "Cost an hour, by tenant",
                        "currencyUSD",
                        ((f"3600 * {rate('turnmill_cost_usd_total', 'tenant', USAGE)}", "{{tenant}}"),),
                    ),
                    Panel(
                        "Tokens a second, by agent",
                        "short",
                        ((rate("turnmill_tokens_total", "agent", f'{USAGE},token_type=~"input|output"'), "{{agent}}"),),
                    ),
                    Panel(
                        "Tokens of one response, median",
                        "short",
                        (
                            (
                                (
                                    "histogram_quantile(0.5, sum by (le, token_type) "
                                    f"(rate(gen_ai_client_token_usage_bucket{{{USAGE}}}[$__rate_interval])))"
                                ),
                                "{{token_type}}",
                            ),
                        ),
                    ),
                ),
            ),
            Row(
                "Turns",
                (
                    Panel(
                        "Turns a second, by agent",
                        "short",
                        ((rate("turnmill_agent_turns_total", "agent", USAGE), "{{agent}}"),),
                    ),
                    Panel(
                        "Interrupted turns a second, by reason",
                        "short",
                        ((rate("turnmill_agent_turns_total", "reason", INTERRUPTED), "{{reason}}"),),
                    ),
                    Panel("Errors of each model", "percentunit", ((f"{errors} / {turns}", "{{model}}"),), "bargauge"),
                    Panel(
                        "Tool calls and failures a second",
                        "short",
                        (
                            (f"sum(rate(turnmill_tool_calls_total{{{USAGE}}}[$__rate_interval]))", "calls"),
                            (f"sum(rate(turnmill_tool_errors_total{{{USAGE}}}[$__rate_interval]))", "failures"),
                        ),
                    ),
                    Panel(
                        "Responses a second, by model",
                        "short",
                        ((rate("turnmill_responses_total", "model", USAGE), "{{model}}"),),
                    ),
                    Panel(
                        "Answers from the application's cache a second",
                        "short",
                        ((f"sum(rate(turnmill_cache_hits_total{{{USAGE}}}[$__rate_interval]))", "hits"),),
                    ),
                ),
            ),
            Row(
                "Latency",
                (
                    Panel("Time to first token", "s", quantiles("gen_ai_server_time_to_first_token_seconds", USAGE)),
                    Panel("One response", "s", quantiles("gen_ai_client_operation_duration_seconds", USAGE)),
                    Panel("One turn", "s", quantiles("gen_ai_invoke_agent_duration_seconds", USAGE)),
                ),
            ),
        ),
        ("model", "agent", "tenant"),
    )

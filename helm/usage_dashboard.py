"""The dashboard of what agents use and do, by model, agent and tenant."""

from typing import Final

from helm.dashboards import IN, Json, Panel, dashboard, each, graph, quantile, quantiles, rate, rates, stat, total

USAGE: Final = f'{IN},model=~"$model",agent=~"$agent",tenant=~"$tenant"'
INTERRUPTED: Final = f'{USAGE},status="interrupted"'
CACHED: Final = f'{USAGE},token_type="cache_read"'
INPUT: Final = f'{USAGE},token_type="input"'
ALL: Final = f'{USAGE},token_type=~"input|output"'
TURNS: Final = "turnmill_agent_turns_total"
TOKENS: Final = "turnmill_tokens_total"
COST: Final = "turnmill_cost_usd_total"


def usage() -> Json:
    """Return the dashboard of a fleet: tokens, cost, turns, errors, latency."""
    errors, turns = total(TURNS, f'{USAGE},reason="error"', "model"), total(TURNS, USAGE, "model")
    rows = {
        "In this time": (
            stat("Turns", total(TURNS, USAGE)),
            stat("Tokens", total(TOKENS, ALL)),
            stat("Cost", total(COST, USAGE), "currencyUSD"),
            stat("Tool calls", total("turnmill_tool_calls_total", USAGE)),
            stat(
                "Interrupted",
                f"{total(TURNS, INTERRUPTED)} / {total(TURNS, USAGE)}",
                "percentunit",
                "Part of the turns that broke off, for any reason.",
            ),
            stat(
                "From caches",
                f"{total(TOKENS, CACHED)} / {total(TOKENS, INPUT)}",
                "percentunit",
                "Part of the input tokens that providers read from their caches.",
            ),
        ),
        "Tokens and cost": (
            graph("Tokens a second, by model", rates(TOKENS, "model", ALL)),
            graph("Tokens a second, by type", rates(TOKENS, "token_type", USAGE)),
            graph(
                "Cost an hour, by model",
                each("model", f"3600 * {rate(COST, USAGE, 'model')}"),
                unit="currencyUSD",
                help="As streams report it. For billing ask `turnmill usage`, which counts stored turns.",
            ),
            graph(
                "Cost an hour, by tenant", each("tenant", f"3600 * {rate(COST, USAGE, 'tenant')}"), unit="currencyUSD"
            ),
            graph("Tokens a second, by agent", rates(TOKENS, "agent", ALL)),
            graph(
                "Tokens of one response, median",
                each("token_type", quantile(0.5, "gen_ai_client_token_usage", USAGE, "token_type")),
            ),
        ),
        "Turns": (
            graph("Turns a second, by agent", rates(TURNS, "agent", USAGE)),
            graph("Interrupted turns a second, by reason", rates(TURNS, "reason", INTERRUPTED)),
            Panel("Errors of each model", "percentunit", (each("model", f"{errors} / {turns}"),), "bargauge"),
            graph(
                "Tool calls and failures a second",
                (rate("turnmill_tool_calls_total", USAGE), "calls"),
                (rate("turnmill_tool_errors_total", USAGE), "failures"),
            ),
            graph("Responses a second, by model", rates("turnmill_responses_total", "model", USAGE)),
            graph("Answers from the application's cache a second", (rate("turnmill_cache_hits_total", USAGE), "hits")),
        ),
        "Latency": tuple(
            graph(title, *quantiles(metric, USAGE), unit="s")
            for title, metric in (
                ("Time to first token", "gen_ai_server_time_to_first_token_seconds"),
                ("One response", "gen_ai_client_operation_duration_seconds"),
                ("One turn", "gen_ai_invoke_agent_duration_seconds"),
            )
        ),
    }
    return dashboard("turnmill-usage", "Turnmill / Usage of the fleet", rows, ("model", "agent", "tenant"))

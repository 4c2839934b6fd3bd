"""Labels of an uploaded run: from the query, else from headers."""

from pipeline.gateway.intake.facts import FactHeaders, UploadQuery, facts_of, info_of


def test_labels_of_the_query_precede_those_of_headers() -> None:
    where = UploadQuery(dialect="vercel-ai", user="ada", tags="beta,eu")
    headers = FactHeaders(turnmill_user="bob", turnmill_environment="test", turnmill_branch="main")
    facts, request = facts_of(where, headers, {"project": "shop"})
    info = info_of(facts, request, None).model_dump(exclude_none=True)
    labels = {"user": "ada", "tags": ["beta", "eu"], "environment": "test", "branch": "main", "project": "shop"}
    assert info == labels

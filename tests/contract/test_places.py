"""No place that can hold what somebody said, or who, is missing in the registry: each says how it is erased."""

import re
from importlib.util import find_spec

from sqlalchemy import Boolean, Integer

from docs.places import NOTHING_SAID, OTHERS, TABLES, TOPICS
from pipeline.settings import Settings
from pipeline.stores.database.schema import metadata
from pipeline.stores.tables_that_follow import FOLLOWS
from topics.catalog import CATALOG

OF_FILES = re.compile(r"\b(folder|files?|bucket|sqlite)\b", re.IGNORECASE)


def test_each_table_says_how_it_is_erased_and_what_each_of_its_columns_holds() -> None:
    assert sorted(one.table for one in TABLES) == sorted(metadata.tables)
    for place in TABLES:
        texts = {one.name for one in metadata.tables[place.table].c if not isinstance(one.type, Integer | Boolean)}
        assert texts == {*place.holds, *place.ours}, place.table
        assert not {*place.holds} & {*place.ours}, place.table


def test_what_follows_its_thread_does_so_by_foreign_keys() -> None:
    def follows(table: str) -> bool:
        keys = metadata.tables[table].foreign_keys
        on = {key.column.table.name for key in keys if key.ondelete == "CASCADE"}
        return "threads" in on or any(map(follows, on))

    following = [one.table for one in TABLES if one.erased.startswith(FOLLOWS)]
    assert following
    assert [table for table in following if not follows(table)] == []


def test_what_is_not_counted_says_why() -> None:
    """A table that holds something is counted, follows its thread, or is the mark itself."""
    excused = {one.table for one in TABLES if one.left is None and one.holds and not one.erased.startswith(FOLLOWS)}
    assert excused == {"erased"}


def test_each_topic_is_there() -> None:
    assert [one.name for one in TOPICS] == [topic.name for topic in CATALOG]


def test_each_setting_that_names_a_folder_a_file_or_a_bucket_is_there() -> None:
    fields = Settings.model_fields.items()
    named = {name for name, one in fields if OF_FILES.search(one.description or "") or "Path" in str(one.annotation)}
    assert named == {*NOTHING_SAID, *(setting for one in OTHERS for setting in one.settings)}


def test_memories_are_where_the_registry_says() -> None:
    assert [one.module for one in OTHERS if one.module and find_spec(one.module) is None] == []

"""The lake's catalog: where it is, and its tables, created at their first use and given the columns that they lack.

All calls block.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import IcebergType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from pipeline.settings import LAKE, Settings
from pipeline.stores.archive import lake_files
from pipeline.stores.database.errors import StoreError

NAMESPACE: Final = "turnmill"
DAY: Final = "started_at"  # the tables are partitioned by the day of this column
MAX_COMMITS: Final = 50  # how often a commit is tried when those of others come first
MAX_RETRY_DELAY: Final = 0.4  # seconds before a commit is tried again, at most
TYPES: Final[Mapping[pa.DataType, IcebergType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}
PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # repeating the same commit would add turns that another commit has added
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.metrics.column.document": "none",  # min and max of texts exclude no files
    "write.metadata.metrics.column.facts": "none",
}


def make(catalog: Catalog, name: str, columns: pa.Schema, location: str) -> None:
    """Create the table turnmill.NAME if it does not exist, or add the columns that it lacks. Raises StoreError."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    fields = [
        NestedField(number, column.name, TYPES[column.type], required=False) for number, column in enumerate(columns, 1)
    ]
    schema = Schema(*fields)
    _refuse_other_catalogs(catalog, name, location)
    day = PartitionField(schema.find_field(DAY).field_id, 1000, DayTransform(), "day")
    with suppress(TableAlreadyExistsError):
        catalog.create_table_if_not_exists(
            (NAMESPACE, name), schema, location, PartitionSpec(day), properties=PROPERTIES
        )
    for _ in range(MAX_COMMITS):
        try:
            table = catalog.load_table((NAMESPACE, name))
            if missing := [field for field in columns if field.name not in table.schema().column_names]:
                with table.update_schema() as update:
                    for field in missing:
                        update.add_column(field.name, TYPES[field.type])
        except CommitFailedException:  # another worker does the same
            pause()
        else:
            return
    raise StoreError(f"{name}: {MAX_COMMITS} changes of others came between; try it again", transient=True)


def pause() -> None:
    """Wait for a moment, since another commit came first."""
    time.sleep(random.uniform(0.1, 1) * MAX_RETRY_DELAY)  # noqa: S311  # jitter


def _refuse_other_catalogs(catalog: Catalog, name: str, location: str) -> None:
    """Raise StoreError if another catalog owns these files: two catalogs would delete each other's."""
    if not isinstance(catalog, SqlCatalog) or catalog.table_exists((NAMESPACE, name)):
        return
    if any(lake_files.listed(f"{location}/metadata")):
        raise StoreError(
            f"{location} holds a table that the catalog doesn't know: name its catalog by TURNMILL_ARCHIVE_CATALOG, "
            "or another place by TURNMILL_ARCHIVE",
            transient=True,  # another worker may be about to register it
        )


CATALOG: Final = "catalog.db"  # of an archive in a folder; else `archive.db` in TURNMILL_HOME
SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class TableState:
    """The rows of a table's current snapshot, and how many snapshots there are."""

    rows: int
    files: int
    snapshots: int


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """`root`: file:///folder, s3://bucket/prefix or gs://…; `catalog`: sqlite:///path, or https:// for REST."""

    root: str
    catalog: str

    @classmethod
    def of(cls, settings: Settings) -> LakeLocation:
        """Return the location that the settings name."""
        root = unquote(str(settings.archive).removeprefix(LAKE)).rstrip("/")
        if settings.archive_catalog is not None:
            return cls(root, settings.archive_catalog)
        if root.startswith("file:"):
            return cls(root, f"sqlite:///{root.removeprefix('file://')}/{CATALOG}")
        return cls(root, f"sqlite:///{settings.home.absolute() / 'archive.db'}")

    def open(self) -> Catalog:
        """Return the catalog. A REST catalog's login is read from PYICEBERG_CATALOG__TURNMILL__…."""
        if not self.catalog.startswith(SQLITE):
            return load_catalog("turnmill", type="rest", uri=self.catalog)
        Path(self.catalog.removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        files = {"py-io-impl": "pipeline.stores.archive.lake_files.LakeFiles"}
        return load_catalog("turnmill", type="sql", uri=self.catalog, warehouse=self.root, **files)

    def state(self, names: Iterable[str]) -> dict[str, TableState]:
        """Return the state of these tables; creates none."""
        if self.catalog.startswith(SQLITE) and not Path(self.catalog.removeprefix(SQLITE)).exists():
            return {}
        catalog = self.open()
        states = {}
        for name in names:
            try:
                table = catalog.load_table((NAMESPACE, name))
            except NoSuchTableError:
                continue
            snapshot = table.current_snapshot()
            properties = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            rows, files = (int(properties.get(key, 0)) for key in ("total-records", "total-data-files"))
            states[name] = TableState(rows, files, len(table.snapshots()))
        return states

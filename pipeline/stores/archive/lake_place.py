"""The location of the lake: its files, and the catalog that names the current snapshot. Its calls block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from pipeline.settings import LAKE, Settings
from pipeline.stores.archive.lake_schema import NAMESPACE

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
    """`root`: file:///folder, s3://bucket/prefix or gs://…; `catalog`: sqlite:///path, or https:// for a REST one."""

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
        """Return the catalog.

        A REST catalog says how its files are accessed; PYICEBERG_CATALOG__TURNMILL__… contains its login.
        """
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
        found = {}
        for name in names:
            try:
                table = catalog.load_table((NAMESPACE, name))
            except NoSuchTableError:
                continue
            snapshot = table.current_snapshot()
            properties = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            rows, files = (int(properties.get(key, 0)) for key in ("total-records", "total-data-files"))
            found[name] = TableState(rows, files, len(table.snapshots()))
        return found

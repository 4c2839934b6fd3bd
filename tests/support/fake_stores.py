"""Stores that tests put in the place of a ThreadStore: what is asked of them, they answer by methods."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from inspect import isfunction, signature, unwrap
from types import ModuleType
from typing import Any

import pytest

from pipeline.stores.keeping import tenant_erasure
from pipeline.stores.tables_that_follow import BOOKS


def answer_by_methods(patch: pytest.MonkeyPatch, kind: type) -> None:
    """Let each function of `pipeline.stores` that takes a store call the method of its name, if the store is a `kind`.

    It is replaced in all modules that have been imported, and in the books by which tenants are erased.
    """
    for module, name, function in _places(_imported()):
        patch.setattr(module, name, _by_method(function, kind))
    books = [
        book if book.forget_tenant is None else replace(book, forget_tenant=_by_method(book.forget_tenant, kind))
        for book in BOOKS
    ]
    patch.setattr(tenant_erasure, "BOOKS", tuple(books))


def store_functions() -> dict[str, Callable[..., Any]]:
    """The functions of `pipeline.stores` that take a store first, by their names."""
    return _functions(_imported())


@cache
def _functions(_: tuple[tuple[str, int], ...]) -> dict[str, Callable[..., Any]]:
    """Return them; they are looked for again once more modules have been imported."""
    modules = [module for name, module in _modules() if name.startswith("pipeline.stores.")]
    return {
        name: unwrap(value)  # it may be replaced at the moment
        for module in modules
        for name, value in vars(module).items()
        if isfunction(value)
        and name[0] != "_"
        and value.__module__ == module.__name__
        and [*signature(value).parameters][:1] == ["store"]
    }


def _modules() -> list[tuple[str, ModuleType]]:
    """Return the pipeline's modules that have been imported, by name."""
    return [(name, module) for name, module in list(sys.modules.items()) if name.startswith("pipeline.") and module]


def _imported() -> tuple[tuple[str, int], ...]:
    """Return what changes when a module of the pipeline is imported, or imported again."""
    return tuple((name, id(module)) for name, module in _modules())


@cache
def _places(_: tuple[tuple[str, int], ...]) -> list[tuple[ModuleType, str, Callable[..., Any]]]:
    """Return the modules that have these functions, and their names there."""
    functions = {*store_functions().values()}
    return [
        (module, name, unwrap(value))
        for _, module in _modules()
        for name, value in list(vars(module).items())
        if isfunction(value) and unwrap(value) in functions
    ]


def _by_method(function: Callable[..., Any], kind: type) -> Callable[..., Any]:
    @wraps(function)
    def call(store: Any, *args: Any, **options: Any) -> Any:
        if isinstance(store, kind):
            return getattr(store, function.__name__)(*args, **options)
        return function(store, *args, **options)

    return call

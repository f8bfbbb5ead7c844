"""Importing this package registers the checks of the core; later rooms register theirs when Django starts."""

from dedupfs_site.examining import machine, store, work

__all__ = ["machine", "store", "work"]

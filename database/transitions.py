"""Triggers that let a status move only along its table's arrows, whoever moves it."""

from __future__ import annotations

from collections.abc import Mapping

from database.objects import DatabaseObject

Moves = Mapping[str, frozenset[str]]


def guards(table: str, moves: Moves) -> list[DatabaseObject]:
    """The trigger that refuses every other move, on both databases."""
    # Move by move: of a list of three SQLite would make a table, anew for each row.
    allowed = " OR ".join(
        f"(OLD.status = '{start}' AND NEW.status = '{end}')"
        for start, ends in sorted(moves.items())
        for end in sorted(ends)
    )
    name = f"moves_{table}"
    sqlite = f"""CREATE TRIGGER {name} BEFORE UPDATE OF status ON {table}
WHEN OLD.status IS NOT NEW.status AND NOT ({allowed}) BEGIN
  SELECT RAISE(ABORT, 'illegal move of {table}.status');
END"""
    function = f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'illegal move of {table}.status' USING ERRCODE = 'check_violation';
END $body$"""
    # The condition is the trigger's: to call a function for each row of a large statement costs as much as the row.
    trigger = (
        f"CREATE TRIGGER {name}_trigger BEFORE UPDATE ON {table} FOR EACH ROW"
        f" WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT ({allowed})) EXECUTE FUNCTION {name}()"
    )
    return [
        DatabaseObject("sqlite", "TRIGGER", name, sqlite, table),
        DatabaseObject("postgresql", "FUNCTION", name, function),
        DatabaseObject("postgresql", "TRIGGER", f"{name}_trigger", trigger, table),
    ]

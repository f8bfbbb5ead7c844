"""Triggers that write every change of a status into the logbook, whoever makes it.

They live in the database, so a worker in another language leaves the same trail as ours. They use only what is built
into SQLite and PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from database.objects import DatabaseObject

#: Enough of an error to be read in a timeline; the whole text stays in the row.
MESSAGE_CHARACTERS = 500


@dataclass(frozen=True)
class Watched:
    """A table whose `status` is recorded. `title` is SQL over `NEW` that names the row for a person."""

    table: str
    title: str
    has_worker: bool = True
    error_code: str | None = "error_code"
    error_message: str | None = "error_message"


def recorders(watched: Watched) -> list[DatabaseObject]:
    """The triggers for one table, on both databases."""
    return [*_sqlite(watched), *_postgresql(watched)]


def _sqlite(watched: Watched) -> list[DatabaseObject]:
    table = watched.table
    worker = "{row}.worker_id" if watched.has_worker else "NULL"
    code = f"NEW.{watched.error_code}" if watched.error_code else "NULL"
    message = f"SUBSTR(NEW.{watched.error_message}, 1, {MESSAGE_CHARACTERS})" if watched.error_message else "NULL"
    payload = f"CASE WHEN {message} IS NULL THEN '{{}}' ELSE JSON_OBJECT('message', {message}) END"
    new_worker = worker.format(row="NEW")
    either_worker = f"COALESCE({new_worker}, {worker.format(row='OLD')})"

    def item_of(row: str) -> str:
        return f"(SELECT id FROM logbook_items WHERE item_type = '{table}' AND subject_id = CAST({row}.id AS TEXT))"

    ensure_item = f"""
  INSERT INTO logbook_items (item_type, subject_id, title)
  SELECT '{table}', CAST(NEW.id AS TEXT), {watched.title}
   WHERE NOT EXISTS (SELECT 1 FROM logbook_items WHERE item_type = '{table}' AND subject_id = CAST(NEW.id AS TEXT));"""
    mirror = (
        "\n  UPDATE logbook_items SET status = NEW.status, updated_at = STRFTIME('%Y-%m-%d %H:%M:%f', 'now')"
        f"\n   WHERE item_type = '{table}' AND subject_id = CAST(NEW.id AS TEXT);"
    )
    columns = "(item_id, item_type, event_type, status_from, status_to, worker_id, error_code, payload_json, source)"
    # A row that is INSERTed although it has a history was REPLACEd: its last status is in its item.
    inserted = f"""CREATE TRIGGER logbook_{table}_insert AFTER INSERT ON {table} BEGIN{ensure_item}
  INSERT INTO logbook_events {columns}
  SELECT id, item_type, 'status', NULLIF(NULLIF(status, 'open'), 'deleted'), NEW.status, {new_worker}, {code},
         {payload}, 'trigger'
    FROM logbook_items
   WHERE item_type = '{table}' AND subject_id = CAST(NEW.id AS TEXT) AND status <> NEW.status;{mirror}
END"""
    updated = f"""CREATE TRIGGER logbook_{table}_update AFTER UPDATE OF status ON {table}
WHEN OLD.status IS NOT NEW.status BEGIN{ensure_item}{mirror}
  INSERT INTO logbook_events {columns}
  VALUES ({item_of("NEW")}, '{table}', 'status', OLD.status, NEW.status, {either_worker}, {code}, {payload}, 'trigger');
END"""
    deleted = f"""CREATE TRIGGER logbook_{table}_delete AFTER DELETE ON {table} BEGIN
  INSERT INTO logbook_events {columns}
  SELECT id, item_type, 'status', OLD.status, NULL, {worker.format(row="OLD")}, NULL, '{{}}', 'trigger'
    FROM logbook_items WHERE item_type = '{table}' AND subject_id = CAST(OLD.id AS TEXT);
  UPDATE logbook_items SET status = 'deleted', updated_at = STRFTIME('%Y-%m-%d %H:%M:%f', 'now')
   WHERE item_type = '{table}' AND subject_id = CAST(OLD.id AS TEXT);
END"""
    bodies = {"insert": inserted, "update": updated, "delete": deleted}
    return [
        DatabaseObject("sqlite", "TRIGGER", f"logbook_{table}_{verb}", body, table) for verb, body in bodies.items()
    ]


def _postgresql(watched: Watched) -> list[DatabaseObject]:
    table, name = watched.table, f"logbook_{watched.table}"
    worker = "{row}.worker_id" if watched.has_worker else "NULL"
    code = f"NEW.{watched.error_code}" if watched.error_code else "NULL"
    message = f"left(NEW.{watched.error_message}, {MESSAGE_CHARACTERS})" if watched.error_message else "NULL"
    columns = "(item_id, item_type, event_type, status_from, status_to, worker_id, error_code, payload_json, source)"
    function = f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
DECLARE item bigint; was text; detail jsonb;
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE logbook_items SET status = 'deleted', updated_at = statement_timestamp()
     WHERE item_type = '{table}' AND subject_id = OLD.id::text RETURNING id INTO item;
    IF item IS NOT NULL THEN
      INSERT INTO logbook_events {columns}
      VALUES (item, '{table}', 'status', OLD.status, NULL, {worker.format(row="OLD")}, NULL, '{{}}', 'trigger');
    END IF;
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF OLD.status IS NOT DISTINCT FROM NEW.status THEN RETURN NULL; END IF;
    was := OLD.status;
  END IF;
  INSERT INTO logbook_items (item_type, subject_id, title, status)
  VALUES ('{table}', NEW.id::text, {watched.title}, NEW.status)
  ON CONFLICT (item_type, subject_id) DO UPDATE SET status = EXCLUDED.status, updated_at = statement_timestamp()
  RETURNING id INTO item;
  detail := CASE WHEN {message} IS NULL THEN '{{}}'::jsonb ELSE jsonb_build_object('message', {message}) END;
  INSERT INTO logbook_events {columns}
  VALUES (item, '{table}', 'status', was, NEW.status,
          COALESCE({worker.format(row="NEW")}, CASE WHEN TG_OP = 'UPDATE' THEN {worker.format(row="OLD")} END),
          {code}, detail, 'trigger');
  RETURN NULL;
END $body$"""
    trigger = (
        f"CREATE TRIGGER {name}_trigger AFTER INSERT OR DELETE OR UPDATE OF status ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION {name}()"
    )
    return [
        DatabaseObject("postgresql", "FUNCTION", name, function),
        DatabaseObject("postgresql", "TRIGGER", f"{name}_trigger", trigger, table),
    ]

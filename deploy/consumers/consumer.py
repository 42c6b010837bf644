#!/usr/bin/env python3
"""A named consumer in Python, with psycopg2:  python3 consumer.py billing

The database is that of libpq's variables (PGHOST, PGDATABASE, ...). With a second word, "once", it ends when all is read."""
import sys
import time

import psycopg2

PAGE_ROWS = 500


def handle(seq, event_id, kind, tenant, device, session, payload):
    """Your own effect. In this database: in the same transaction, and it happens exactly once. Elsewhere: drop repeats by id."""
    print(seq, event_id, kind, f"{tenant}/{device}", payload.get("reason", "-"), flush=True)


def turn(connection, name):
    """Reads and handles one page; returns how many rows. An error rolls back: the same rows come again."""
    with connection, connection.cursor() as cursor:  # one transaction
        # Locks the cursor until COMMIT: a second process of this name waits.
        cursor.execute("SELECT seq, id, type, tenant, device, session, payload FROM presence.poll(%s, %s)", (name, PAGE_ROWS))
        rows = cursor.fetchall()
        for row in rows:
            handle(*row)
        if rows:
            cursor.execute("SELECT presence.commit(%s, %s)", (name, rows[-1][0]))
        return len(rows)


def consume(name, once):
    connection = psycopg2.connect("")
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT presence.create_consumer(%s, 'oldest')", (name,))
    except psycopg2.errors.UniqueViolation:
        pass  # it exists
    while True:
        if turn(connection, name) < PAGE_ROWS:
            if once:
                return
            time.sleep(1)


if __name__ == "__main__":
    while True:
        try:
            consume(sys.argv[1], once="once" in sys.argv[2:])
            break
        except psycopg2.OperationalError as error:  # the connection: try again. PR410 and the like end the program.
            print(error, file=sys.stderr)
            time.sleep(1)

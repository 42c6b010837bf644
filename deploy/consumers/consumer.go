// A named consumer in Go, with pgx:  go mod init consumer && go get github.com/jackc/pgx/v5 && go run consumer.go billing
//
// The database is that of libpq's variables (PGHOST, PGDATABASE, ...). With a second word, "once", it ends when all is read.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const pageRows = 500

type event struct {
	seq                int64
	id, kind           string
	tenant, device     string
	session            string
	payload            json.RawMessage
}

// handle is your own effect. In this database: in the same transaction tx, and it happens exactly once. Elsewhere: drop repeats by id.
func handle(_ context.Context, _ pgx.Tx, e event) error {
	var data struct{ Reason string }
	if err := json.Unmarshal(e.payload, &data); err != nil {
		return err
	}
	if data.Reason == "" {
		data.Reason = "-"
	}
	_, err := fmt.Println(e.seq, e.id, e.kind, e.tenant+"/"+e.device, data.Reason)
	return err
}

// turn reads and handles one page; an error rolls back: the same rows come again.
func turn(ctx context.Context, conn *pgx.Conn, name string) (count int, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Locks the cursor until COMMIT: a second process of this name waits.
		rows, err := tx.Query(ctx,
			"SELECT seq, id::text, type, tenant, device, session, payload FROM presence.poll($1, $2)", name, pageRows)
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
			err = row.Scan(&e.seq, &e.id, &e.kind, &e.tenant, &e.device, &e.session, &e.payload)
			return e, err
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := handle(ctx, tx, e); err != nil {
				return err
			}
		}
		count = len(page)
		if count > 0 {
			_, err = tx.Exec(ctx, "SELECT presence.commit($1, $2)", name, page[count-1].seq)
		}
		return err
	})
	return count, err
}

func consume(ctx context.Context, name string, once bool) error {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT presence.create_consumer($1, 'oldest')", name)
	var refused *pgconn.PgError
	if err != nil && !(errors.As(err, &refused) && refused.Code == "23505") { // 23505: it exists
		return err
	}
	for {
		count, err := turn(ctx, conn, name)
		if err != nil {
			return err
		}
		if count == pageRows {
			continue // there is more
		}
		if once {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: consumer NAME [once]")
	}
	for {
		err := consume(context.Background(), os.Args[1], len(os.Args) > 2 && os.Args[2] == "once")
		var refused *pgconn.PgError
		if err == nil || errors.As(err, &refused) && refused.Code == "PR410" { // PR410: rows were dropped unread
			if err != nil {
				log.Fatal(err)
			}
			return
		}
		log.Print(err)
		time.Sleep(time.Second)
	}
}

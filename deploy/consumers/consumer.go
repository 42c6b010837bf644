// A named consumer in Go, with lib/pq:  go mod init consumer && go get github.com/lib/pq && go run consumer.go billing
//
// With Debian's packages golang-go and golang-github-lib-pq-dev and no network:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run consumer.go billing
//
// The database is that of libpq's variables (PGHOST, PGDATABASE, ...). With a second word, "once", it ends when all is read.
package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/lib/pq"
)

const pageRows = 500

type event struct {
	seq            int64
	id, kind       string
	tenant, device string
	session        string
	payload        []byte
}

// handle is your own effect. In this database: in the same transaction tx, and it happens exactly once. Elsewhere: drop repeats by id.
func handle(_ *sql.Tx, e event) error {
	data := struct{ Reason string }{"-"}
	if err := json.Unmarshal(e.payload, &data); err != nil {
		return err
	}
	_, err := fmt.Println(e.seq, e.id, e.kind, e.tenant+"/"+e.device, data.Reason)
	return err
}

// read locks the cursor until COMMIT: a second process of this name waits.
func read(tx *sql.Tx, name string) ([]event, error) {
	rows, err := tx.Query("SELECT seq, id, type, tenant, device, session, payload FROM presence.poll($1, $2)", name, pageRows)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []event
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.seq, &e.id, &e.kind, &e.tenant, &e.device, &e.session, &e.payload); err != nil {
			return nil, err
		}
		page = append(page, e)
	}
	return page, rows.Err()
}

// turn reads and handles one page; what fails rolls back, and the same rows come again.
func turn(db *sql.DB, name string) (int, error) {
	tx, err := db.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // nothing after Commit
	page, err := read(tx, name)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	for _, e := range page {
		if err := handle(tx, e); err != nil {
			return 0, err
		}
	}
	if _, err := tx.Exec("SELECT presence.commit($1, $2)", name, page[len(page)-1].seq); err != nil {
		return 0, err
	}
	return len(page), tx.Commit()
}

func consume(db *sql.DB, name string, once bool) error {
	_, err := db.Exec("SELECT presence.create_consumer($1, 'oldest')", name)
	if err != nil && !is(err, "23505") { // it exists
		return err
	}
	for {
		count, err := turn(db, name)
		if err != nil || once && count < pageRows {
			return err
		}
		if count < pageRows {
			time.Sleep(time.Second)
		}
	}
}

func is(err error, sqlstate pq.ErrorCode) bool {
	var refused *pq.Error
	return errors.As(err, &refused) && refused.Code == sqlstate
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: consumer NAME [once]")
	}
	db, err := sql.Open("postgres", "")
	if err != nil {
		log.Fatal(err)
	}
	for {
		err := consume(db, os.Args[1], len(os.Args) > 2 && os.Args[2] == "once")
		if err == nil {
			return
		}
		if is(err, "PR410") { // rows were dropped unread
			log.Fatal(err)
		}
		log.Print(err)
		time.Sleep(time.Second)
	}
}

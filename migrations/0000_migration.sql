-- What has been applied. Unlike the numbered migrations after it this file runs every time, before the list is read.

CREATE SCHEMA IF NOT EXISTS presence;

CREATE TABLE IF NOT EXISTS presence.migration (
  version integer PRIMARY KEY,
  name text NOT NULL,
  sha256 text NOT NULL, -- of the file, in hexadecimal
  applied_at timestamptz NOT NULL DEFAULT now()
);

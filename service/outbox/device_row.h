/* device_row.h: a row of presence.device as presence.device_rows and presence.device_page answer it. */
#ifndef PRESENCE_OUTBOX_DEVICE_ROW_H
#define PRESENCE_OUTBOX_DEVICE_ROW_H

#include "outbox.h"

/* Reads row i of the result, whose column `first` is the state; found = false where that is null. The metadata is the row's to
 * free, also after a failure. */
enum status device_row_read(const PGresult *result, int i, int first, struct device_row *row) MUST_CHECK;

#endif

#include "sim_http.h"

#include <ctype.h>
#include <strings.h>

/* URL */

static bool split_port(struct str authority, struct str *host, uint16_t *port) {
  size_t search_from = 0; /* the colons inside [::1] separate no port */
  if (authority.len > 0 && authority.data[0] == '[') {
    const char *bracket = memchr(authority.data, ']', authority.len);
    if (bracket == NULL) return false;
    search_from = (size_t)(bracket - authority.data);
  }
  const char *colon = memchr(authority.data + search_from, ':', authority.len - search_from);
  size_t host_len = colon != NULL ? (size_t)(colon - authority.data) : authority.len;
  int64_t number = 80;
  if (colon != NULL) {
    struct str digits = {colon + 1, authority.len - host_len - 1};
    if (str_to_int64(digits, &number) != STATUS_OK || number < 1 || number > UINT16_MAX) return false;
  }
  *host = (struct str){authority.data, host_len};
  if (search_from > 0) {
    if (host_len != search_from + 1) return false; /* something between ] and : */
    *host = (struct str){authority.data + 1, host_len - 2};
  }
  *port = (uint16_t)number;
  return host->len > 0;
}

enum status sim_url_parse(struct str url, struct sim_url *parts) {
  static const char scheme[] = "http://";
  size_t scheme_len = sizeof scheme - 1;
  if (url.len <= scheme_len || strncasecmp(url.data, scheme, scheme_len) != 0) return STATUS_INVALID;
  for (size_t i = 0; i < url.len; i++)
    if ((unsigned char)url.data[i] <= ' ' || (unsigned char)url.data[i] >= 0x7f || strchr("@?#", url.data[i]) != NULL)
      return STATUS_INVALID;
  struct str rest = {url.data + scheme_len, url.len - scheme_len};
  const char *slash = memchr(rest.data, '/', rest.len);
  size_t authority_len = slash != NULL ? (size_t)(slash - rest.data) : rest.len;
  parts->authority = (struct str){rest.data, authority_len};
  parts->path = (struct str){rest.data + authority_len, rest.len - authority_len};
  if (parts->path.len > 0 && parts->path.data[parts->path.len - 1] == '/') parts->path.len--;
  return split_port(parts->authority, &parts->host, &parts->port) ? STATUS_OK : STATUS_INVALID;
}

static bool is_unreserved(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '-' ||
         byte == '.' || byte == '_' || byte == '~';
}

enum status sim_append_segment(struct buf *out, struct str text) {
  static const char hex[] = "0123456789ABCDEF";
  enum status status = STATUS_OK;
  for (size_t i = 0; i < text.len && status == STATUS_OK; i++) {
    unsigned char byte = (unsigned char)text.data[i];
    char encoded[3] = {'%', hex[byte >> 4], hex[byte & 15]};
    status = is_unreserved(text.data[i]) ? buf_append(out, &text.data[i], 1) : buf_append(out, encoded, sizeof encoded);
  }
  return status;
}

/* Answers */

/* "HTTP/1.1 204 No Content" */
static int status_of(struct str line) {
  if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 || line.data[8] != ' ') return 0;
  int status = 0;
  for (int i = 9; i < 12; i++) {
    if (line.data[i] < '0' || line.data[i] > '9') return 0;
    status = status * 10 + (line.data[i] - '0');
  }
  return status >= 100 ? status : 0;
}

static struct str trim(struct str text) {
  while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) text = (struct str){text.data + 1, text.len - 1};
  while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) text.len--;
  return text;
}

static bool same_word(struct str text, const char *word) {
  return text.len == strlen(word) && strncasecmp(text.data, word, text.len) == 0;
}

struct head {
  int status;
  int64_t content_length; /* -1: none given */
  bool close, chunked;
};

static bool read_header(struct str line, struct head *head) {
  const char *colon = memchr(line.data, ':', line.len);
  if (colon == NULL) return false;
  struct str name = {line.data, (size_t)(colon - line.data)};
  struct str value = trim((struct str){colon + 1, line.len - name.len - 1});
  if (same_word(name, "content-length")) return str_to_int64(value, &head->content_length) == STATUS_OK;
  if (same_word(name, "connection") && same_word(value, "close")) head->close = true;
  if (same_word(name, "transfer-encoding")) head->chunked = true;
  return true;
}

/* bytes end behind the head's empty line. */
static bool read_head(struct str bytes, struct head *head) {
  *head = (struct head){.content_length = -1};
  bool first = true;
  while (bytes.len > 2) {
    const char *end = memmem(bytes.data, bytes.len, "\r\n", 2);
    if (end == NULL) return false;
    struct str line = {bytes.data, (size_t)(end - bytes.data)};
    if (first) {
      head->status = status_of(line);
      head->close = line.len > 7 && line.data[7] == '0'; /* HTTP/1.0 closes */
    } else if (!read_header(line, head)) {
      return false;
    }
    first = false;
    bytes.data += line.len + 2;
    bytes.len -= line.len + 2;
  }
  return head->status != 0;
}

/* The size at the start of a chunk's line; false: there is none, or it is too large. */
static bool chunk_size(struct str line, size_t *size) {
  size_t digits = 0;
  *size = 0;
  for (; digits < line.len && isxdigit((unsigned char)line.data[digits]) && *size <= SIM_BODY_MAX; digits++) {
    char digit = line.data[digits];
    *size = *size * 16 + (size_t)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return digits > 0 && *size <= SIM_BODY_MAX;
}

/* How many bytes a chunked body takes with its trailers (RFC 9112, section 7.1), in *len. */
static enum sim_parse chunked_len(struct str bytes, size_t *len) {
  bool last = false; /* the last chunk was there: trailers follow, and an empty line */
  for (size_t at = 0; at <= SIM_BODY_MAX;) {
    const char *line = bytes.data + at, *end = memmem(line, bytes.len - at, "\r\n", 2);
    if (end == NULL) return bytes.len - at > SIM_HEAD_MAX ? SIM_PARSE_BAD : SIM_PARSE_MORE;
    size_t size = 0;
    if (!last && !chunk_size((struct str){line, (size_t)(end - line)}, &size)) return SIM_PARSE_BAD;
    at = (size_t)(end - bytes.data) + 2;
    if (last && end == line) {
      *len = at;
      return SIM_PARSE_DONE;
    }
    if (last || size == 0) {
      last = true;
      continue;
    }
    if (bytes.len - at < size + 2) return SIM_PARSE_MORE;
    if (memcmp(bytes.data + at + size, "\r\n", 2) != 0) return SIM_PARSE_BAD;
    at += size + 2;
  }
  return SIM_PARSE_BAD;
}

/* Of the body behind a head: bytes begin with it. */
static enum sim_parse body_len(struct str bytes, const struct head *head, size_t *len) {
  *len = 0;
  if (head->status == 204 || head->status == 304) return SIM_PARSE_DONE;
  if (head->chunked) return chunked_len(bytes, len);
  if (head->content_length < 0 || head->content_length > SIM_BODY_MAX) return SIM_PARSE_BAD;
  *len = (size_t)head->content_length;
  return bytes.len < *len ? SIM_PARSE_MORE : SIM_PARSE_DONE;
}

enum sim_parse sim_answer_parse(struct str bytes, struct sim_answer *answer) {
  size_t skipped = 0;
  for (;;) {
    struct str rest = {bytes.data + skipped, bytes.len - skipped};
    const char *blank = rest.len > 0 ? memmem(rest.data, rest.len, "\r\n\r\n", 4) : NULL;
    if (blank == NULL) return rest.len > SIM_HEAD_MAX ? SIM_PARSE_BAD : SIM_PARSE_MORE;
    size_t head_len = (size_t)(blank - rest.data) + 4;
    struct head head;
    if (head_len > SIM_HEAD_MAX || !read_head((struct str){rest.data, head_len}, &head)) return SIM_PARSE_BAD;
    if (head.status < 200) {
      skipped += head_len;
      continue;
    }
    size_t len;
    struct str body = {rest.data + head_len, rest.len - head_len};
    enum sim_parse parse = body_len(body, &head, &len);
    if (parse != SIM_PARSE_DONE) return parse;
    *answer = (struct sim_answer){.status = head.status,
                                  .body = {body.data, head.chunked ? 0 : len},
                                  .close = head.close,
                                  .size = skipped + head_len + len};
    return SIM_PARSE_DONE;
  }
}

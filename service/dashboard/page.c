/* page.c: the dashboard, GET / and /assets/NAME. The files beside this one are part of the program, as is Debian's Chart.js. The
 * page holds no data and asks for a token itself, so anybody may have it. */
#include "embedded.h"
#include "http.h"

/* Scripts, styles and requests of this origin only, nothing inline: a device id or metadata that held markup could do nothing. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
                             "base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

static const struct {
  struct str ending;
  const char *content_type;
} types[] = {
    {{".html", 5}, "text/html; charset=utf-8"},     {{".css", 4}, "text/css; charset=utf-8"},
    {{".js", 3}, "text/javascript; charset=utf-8"}, {{".svg", 4}, "image/svg+xml"},
    {{".txt", 4}, "text/plain; charset=utf-8"},
};

static const char *content_type_of(struct str name) {
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    struct str ending = types[i].ending;
    if (name.len > ending.len && memcmp(name.data + name.len - ending.len, ending.data, ending.len) == 0)
      return types[i].content_type;
  }
  return "application/octet-stream";
}

static void reply_embedded(struct request *request, struct str name) {
  for (size_t i = 0; i < embedded_dashboard_count; i++) {
    const struct embedded_file *file = &embedded_dashboard[i];
    if (!str_equal(name, str_from(file->name))) continue;
    reply_file(request, &(struct reply_file){.bytes = {file->bytes, file->length},
                                             .fingerprint = file->fingerprint,
                                             .content_type = content_type_of(name),
                                             .policy = policy});
    return;
  }
  reply_error(request, 404, "not_found", "there is nothing at this path");
}

void handle_page(struct request *request) { reply_embedded(request, STR_LIT("index.html")); }

void handle_asset(struct request *request) { reply_embedded(request, request->asset); }
